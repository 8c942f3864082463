"""What runs in the box: ask for the go, drive pi, report. Standard library only, imports kept few: they cost start time.

settings  the environment, parsed strictly      gate      /go and /report on the worker's socket
forward   127.0.0.1 to that socket              pi        the pi process and its JSON lines
fold      what pi's events add up to            decide    that sum to exit code and reason
exitline  one line about the end                layers    what pi is told and given beside its own
main      the story
"""
