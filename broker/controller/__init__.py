"""The embedded controller: it decides what the metadata become. Each module holds the rules of one subject.

The rules are pure functions from an image and a wish to records and answers; `embedded` commits them.
Source: org.apache.kafka.controller.
"""
