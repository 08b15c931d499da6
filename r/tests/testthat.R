library(testthat)
library(unikat)

test_check("unikat")
