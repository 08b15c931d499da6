there_and_back <- function(frame) {
  folder <- tempfile("frames-")
  dir.create(folder)
  on.exit(unlink(folder, recursive = TRUE))
  file <- write_frame(check_frame(frame, "d"), folder, "d")
  expect_equal(as.character(file.mode(file$path)), "600")
  as.data.frame(read_frame(file$path, frame, file$codebook))
}

values <- function(n) {
  some <- function(x) x[sample(c(seq_along(x), NA), n, TRUE)]
  odd <- c("plain", "with, comma", "a \"quote\"", "two\nlines", "\u00e4\u4e2d \U0001F600", " space ", "01", "NA", "TRUE")
  data.frame(
    text = some(odd), factor = factor(some(odd), levels = rev(odd)),
    ordered = factor(some(c("10", "2", "1")), levels = c("10", "2", "1"), ordered = TRUE),
    whole = some(c(0L, -5L, 100000L, .Machine$integer.max)),
    number = some(c(0.1, 1/3, 1e-12, 123456789.123, 1e15, -2.5)),
    flag = some(c(TRUE, FALSE)), day = as.Date("2024-02-29") + some(0:3),
    time = as.POSIXct("2024-02-29 12:00:00.25", tz = "America/Lima") + some(c(0, 1.5)),
    span = as.difftime(some(c(1, 2)), units = "days"),
    `odd name, too` = some(1:3), check.names = FALSE
  )
}

test_that("every type of column comes back as it was", {
  for (seed in 1:5) {
    set.seed(seed)
    frame <- values(60)
    expect_identical(there_and_back(frame), frame)
  }
  labelled <- structure(1:3, label = "Status in the labour force")
  expect_identical(there_and_back(data.frame(a = labelled, b = 1))$a, labelled)
})

test_that("what was changed keeps the type that it had", {
  o <- factor(c("a", "b", "c"), levels = c("c", "b", "a"), ordered = TRUE)
  # Fewer rows, another order, missing values: still the original's values.
  expect_identical(restored(c("c", NA), o), o[c(3, NA)])
  joined <- restored(c("c", "a or b", "a or b"), o, list(levels = list("c", "a or b")))
  expect_identical(joined, factor(c("c", "a or b", "a or b"), levels = c("c", "a or b"), ordered = TRUE))
  expect_false(is.ordered(restored(c("x", "y"), factor(c("p", "q")))))
  expect_identical(restored(c("7", "9", NA), c(1L, 2L, 3L)), c(7L, 9L, NA))
  expect_identical(restored(c("7.5", "9"), c(1L, 2L)), c(7.5, 9))
  groups <- restored(c(">= 85", "20-24", "< 20", "100-104"), 1:4)
  expect_equal(levels(groups), c("< 20", "20-24", ">= 85", "100-104"))
  expect_s3_class(groups, "ordered")
  expect_identical(restored(c("z", NA), c("a", "b")), c("z", NA))
  expect_equal(attr(restored("20-29", structure(21L, label = "Age in years")), "label"), "Age in years")
})

test_that("labels of haven and their missing codes come back", {
  skip_if_not_installed("haven")
  set.seed(1)
  spss <- haven::labelled_spss(sample(c(1, 2, 9), 40, TRUE), c(yes = 1, no = 2, refused = 9), na_values = 9, label = "Work")
  ranged <- haven::labelled_spss(sample(c(1:3, 97:99), 40, TRUE), c(x = 1), na_range = c(97, 99))
  frame <- data.frame(id = 1:40, f = factor(sample(c("a", "b"), 40, TRUE), levels = c("b", "a")), flag = rep(c(TRUE, NA), 20))
  frame$spss <- spss
  frame$ranged <- ranged
  expect_identical(there_and_back(frame), frame)
  tagged <- haven::labelled(c(1, 2, haven::tagged_na("a"), NA), c(yes = 1, no = 2, refused = haven::tagged_na("a")))
  frame <- data.frame(id = 1:4)
  frame$tagged <- tagged
  found <- there_and_back(frame)
  expect_identical(haven::na_tag(found$tagged), haven::na_tag(tagged))
  expect_identical(attr(found$tagged, "labels"), attr(tagged, "labels"))
})

test_that("what is no table of vectors is refused by name", {
  expect_error(check_frame(1:3, "d"), "data frame, a survey design or an object of sdcMicro; it is of class integer")
  expect_error(check_frame(data.frame(), "d"), "no rows")
  frame <- data.frame(a = 1:2)
  frame$inner <- list(1, 2:3)
  expect_error(check_frame(frame, "d"), "inner is not")
})
