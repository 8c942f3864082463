"""The job image that tests run; another one where several checkouts share an engine."""

import os

IMAGE = os.environ.get("PI_JOB_IMAGE", "pi-job:latest")
