test_that("records of an assessment are in the order of the rows", {
  needs_unikat()
  survey <- survey_of()
  found <- run(assess, survey, ~ age + sex + edu + region, population_size = 5000)
  expect_s3_class(found$records, "tbl_df")
  cell <- do.call(paste, survey[keys])
  expect_equal(found$records$f, as.vector(table(cell)[cell]))
  expect_identical(found$records$sample_unique, found$records$f == 1)
  expect_type(found$records$key_1, "character")
  expect_equal(found$numbers$sample$n_uniques, sum(found$records$f == 1))
  expect_true("tau1" %in% summary(found)$measure)
  expect_output(print(found), "sample uniques")
  drawn <- charts(found)
  expect_true(any(grepl("Posterior distribution", names(drawn))))
  expect_match(drawn[[1]], "^<svg.*</svg>$")
  expect_error(plot(found, "no such chart"), "There is no chart")
  expect_equal(left_behind(), character())
})

test_that("a protected frame keeps types, rows and other columns", {
  needs_unikat()
  survey <- survey_of()
  found <- run(protect, survey, keys, 5000, recode = list(age = "width(10)"))
  for (name in c("sex", "edu", "region", "day")) expect_identical(found$data[[name]], survey[[name]])
  expect_s3_class(found$data$age, "ordered")
  expect_equal(levels(found$data$age), c("20-29", "30-39", "40-49", "50-59", "60-69"))
  expect_equal(as.integer(found$data$age), survey$age %/% 10L - 1L)
  expect_equal(found$met, NA)
  expect_equal(nrow(summary(found)[summary(found)$measure == "before.tau1", ]), 1)
})

test_that("labels of haven come back from a protection", {
  needs_unikat()
  skip_if_not_installed("haven")
  survey <- survey_of()
  survey$work <- haven::labelled_spss(sample(c(1, 2, 3, 9), 300, TRUE, c(5, 4, 1, 1)),
                                      c(employed = 1, unemployed = 2, student = 3, refused = 9), na_values = 9, label = "Work")
  found <- run(protect, survey, c("sex", "edu", "region", "work"), 5000, recode = list(region = "left out"))
  expect_false("region" %in% names(found$data))
  expect_identical(found$data$work, survey$work)
  expect_identical(found$data$sex, survey$sex)
})

test_that("synthetic frames have the types of the original, and can be attacked", {
  needs_unikat()
  survey <- survey_of()
  made <- do.call(synthesize, c(list(survey, keys, datasets = 2), quick))
  expect_length(made$data, 2)
  for (one in made$data) {
    expect_identical(vapply(one[keys], function(x) class(x)[[1]], ""), vapply(survey[keys], function(x) class(x)[[1]], ""))
    expect_identical(levels(one$edu), levels(survey$edu))
  }
  found <- attack(survey, made, c("sex", "edu", "region"), progress = FALSE)
  expect_true(length(found$numbers) > 0)
  # What synthpop makes: two files are a list in it.
  theirs <- structure(list(m = 2, syn = made$data, call = quote(syn(survey))), class = "synds")
  again <- attack(survey, theirs, c("sex", "edu", "region"), progress = FALSE)
  expect_equal(again$numbers$attacks, found$numbers$attacks)
})

test_that("an evaluation comes as a table", {
  needs_unikat()
  found <- do.call(evaluate, c(list(survey_of(600), keys, n = 100, models = "latent-class", repeats = 2), quick[-1]))
  expect_equal(nrow(found$tables$evaluation) > 0, TRUE)
})

test_that("errors are those of unikat without traceback or path, and leave nothing behind", {
  needs_unikat()
  survey <- survey_of(50)
  said <- tryCatch(assess(survey, c("age", "sez"), 500), error = conditionMessage)
  expect_match(said, "^survey has no column 'sez'. Did you mean 'sex'\\?")
  expect_false(grepl("--|Traceback|/tmp|csv", said))
  expect_error(assess(survey, keys, population_sise = 500), "population_size")
  expect_error(assess(survey, keys), "population size is needed.*population_size")
  expect_error(assess(survey, keys, 500, "hdp"), "one has none")
  expect_error(assess("survey.csv", keys, 500), "read.csv\\(\"survey.csv\"")
  expect_error(assess(survey, nosuch + sex, 500), "keys: object 'nosuch' not found. Give names in quotes")
  expect_error(verify(survey, survey[1:9, ], keys, 500), "protected 9, so .* id = 'COLUMN'")
  expect_error(browse(survey), "class data.frame")
  expect_equal(left_behind(), character())
})

test_that("folders that are named stay, and their place is known", {
  needs_unikat()
  out <- file.path(tempdir(), "kept")
  on.exit(unlink(out, recursive = TRUE))
  found <- run(assess, survey_of(100), keys, population_size = 5000, out = out)
  expect_true(file.exists(file.path(found$folder, "report.html")))
  expect_error(run(assess, survey_of(100), keys, population_size = 5000, out = out), "overwrite = TRUE")
})

test_that("a Python without unikat is named", {
  old <- session$found
  on.exit(session$found <- old)
  expect_error(unikat_python("/no/such/python"), "is not there, or has no unikat")
})
