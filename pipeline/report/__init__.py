"""Reports: each is one self-contained HTML file, with figures as SVG, numbers as tables, and no scripts."""
