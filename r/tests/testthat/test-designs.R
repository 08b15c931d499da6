test_that("a survey design gives weights and strata, and asks about clusters", {
  skip_if_not_installed("survey")
  frame <- survey_of(40)
  frame$w <- rep(c(10, 20), 20)
  design <- survey::svydesign(~1, strata = ~region, weights = ~w, data = frame)
  found <- understood(design, "d", "assess")
  expect_equal(found$options, list(weights = "w", strata = "region"))
  expect_equal(found$added, character())
  # Of frames without a column of them, and of calibrated ones, a column is added.
  half <- survey::svydesign(~1, weights = 3 * frame$w, data = frame)
  found <- understood(half, "d", "protect")
  expect_equal(found$frame[[found$options$weights]], 3 * frame$w)
  expect_equal(found$added, found$options$weights)
  expect_equal(understood(design, "d", "evaluate")$options, list())
  expect_message(understood(survey::svydesign(~region, weights = ~w, data = frame), "d", "assess"), "clusters \\(region\\)")
})

test_that("an object of sdcMicro gives its data as they are, keys, weights and households", {
  if (!requireNamespace("sdcMicro", quietly = TRUE)) {
    # Its documented slots: what a step has set is in the object, the rest in the one before.
    methods::setClass("sdcMicroObj", where = globalenv(), representation(
      origData = "ANY", keyVars = "ANY", weightVar = "ANY", hhId = "ANY", sensibleVar = "ANY",
      manipKeyVars = "ANY", manipNumVars = "ANY", deletedVars = "ANY", set = "ANY", prev = "ANY"
    ))
    on.exit(methods::removeClass("sdcMicroObj", where = globalenv()))
  }
  frame <- data.frame(sex = 1:4, age = 11:14, income = 1:4 * 1000, w = 5, hid = 1:4, name = letters[1:4])
  first <- methods::new("sdcMicroObj")
  for (slot in list(list("origData", frame), list("keyVars", 1:2), list("weightVar", 4L), list("hhId", 5L),
                    list("manipKeyVars", frame[1:2]), list("deletedVars", "name"))) {
    methods::slot(first, slot[[1]], check = FALSE) <- slot[[2]]
    first@set <- c(first@set, list(slot[[1]]))
  }
  step <- methods::new("sdcMicroObj")
  step@manipKeyVars <- data.frame(sex = c(1, NA, 3, 4), age = frame$age)
  step@set <- list("manipKeyVars")
  step@prev <- first
  found <- understood(step, "d", "assess")
  expect_equal(found$options, list(keys = c("sex", "age"), weights = "w", household = "hid"))
  expect_equal(found$frame$sex, c(1, NA, 3, 4))
  expect_equal(names(found$frame), c("sex", "age", "income", "w", "hid"))
})

test_that("an object that sdcMicro itself has made gives the file as it is now", {
  skip_if_not_installed("sdcMicro")
  keys <- c("age", "sex", "edu", "region")
  frame <- survey_of(200)
  frame$income <- round(exp(stats::rnorm(200, 7)), 2)
  frame$w <- 10
  frame$hid <- seq_len(200)
  frame$ill <- factor(sample(c("no", "yes"), 200, TRUE))
  frame$region <- factor(frame$region)
  made <- sdcMicro::createSdcObj(frame[c(keys, "income", "w", "hid", "ill")], keyVars = keys, numVars = "income",
                                 weightVar = "w", hhId = "hid", sensibleVar = "ill")
  given <- understood(made, "d", "assess")
  expect_equal(given$options, list(keys = keys, weights = "w", household = "hid", sensitive = "ill"))
  expect_equal(as.data.frame(given$frame), frame[c(keys, "income", "w", "hid", "ill")], ignore_attr = TRUE)
  made <- sdcMicro::globalRecode(made, column = "age", breaks = c(0, 39, 59, 120))
  made <- sdcMicro::localSuppression(made, k = 3)
  made <- sdcMicro::microaggregation(made, variables = "income")
  ours <- understood(made, "d", "assess")$frame
  theirs <- sdcMicro::extractManipData(made)
  for (name in setdiff(names(theirs), "age")) expect_equal(ours[[name]], theirs[[name]], ignore_attr = TRUE)
  # A key of numbers that was cut: extractManipData() numbers the groups, here they keep their names.
  expect_equal(as.integer(ours$age), as.integer(theirs$age))
  expect_equal(levels(ours$age)[[1]], "(0,39]")
})
