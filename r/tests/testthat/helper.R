survey_of <- function(n = 300, seed = 1) {
  set.seed(seed)
  data.frame(
    age = sample(20:69, n, TRUE),
    sex = factor(sample(c("male", "female"), n, TRUE)),
    edu = factor(sample(c("none", "school", "degree"), n, TRUE), levels = c("none", "school", "degree"), ordered = TRUE),
    region = sprintf("%02d", sample(1:6, n, TRUE)),
    day = as.Date("2024-01-01") + sample(0:9, n, TRUE)
  )
}

keys <- c("age", "sex", "edu", "region")

# Short runs: the tests look at how answers come back, not at the numbers.
quick <- list(model = "latent-class", max_sweeps = 60, chains = 2, workers = 1, allow_unconverged = TRUE)

run <- function(f, ...) do.call(f, c(list(...), quick))

# An environment of the tests has to name a Python with unikat; a machine without one tests the rest.
needs_unikat <- function() {
  if (is.null(tryCatch(unikat_python(), error = function(e) NULL))) testthat::skip("no Python with unikat")
}

left_behind <- function() list.files(tempdir(), pattern = "^unikat-")
