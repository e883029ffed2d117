"""Reports: one HTML file each, with everything in it, figures as SVG, numbers as tables; no scripts."""
