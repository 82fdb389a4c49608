"""Hand in the sample submission: the score that costs nothing."""

import shutil

shutil.copy("data/sample_submission.csv", "submission.csv")
