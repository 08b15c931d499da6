place <- list(put = function(frame, name) paste0("FILE/", name), json = function(value, name) "FILE/codebook")

test_that("values become words of the command line", {
  words <- function(...) as_words(..., place)
  expect_equal(words("population_size", 1e7), c("--population-size", "10000000"))
  expect_equal(words("dry_run", TRUE), "--dry-run")
  expect_equal(words("dry_run", FALSE), character())
  expect_equal(words("models", c("hdp", "loglinear")), c("--models", "hdp,loglinear"))
  expect_equal(words("by", ~ region + sector), c("--by", "region,sector"))
  expect_equal(words("missing_values", list(AGE = c(-1, 999), SEX = 9)), c("--missing-values", "AGE: -1,999; SEX: 9"))
  expect_equal(words("recode", c(age = "width(10)", sex = "left out")), c("--recode", "age: width(10); sex: left out"))
  expect_equal(words("set", list(sampling.thin = 5, fixed = TRUE)), c("--set", "sampling.thin=5", "--set", "fixed=true"))
  expect_equal(words("margins", data.frame(a = 1)), c("--margins", "FILE/margins"))
  expect_equal(words("margins", list(data.frame(a = 1), data.frame(a = 2))), c("--margins", "FILE/margins_1,FILE/margins_2"))
  expect_error(words("model", mean), "cannot be a function")
  expect_error(words("seed", NA), "missing value")
})

test_that("a formula names keys and their groupings", {
  five <- 5
  expect_equal(as_keys(~ sex + width(age, five) + cut(income, 0, 1e5)), c("sex", "age:width(5)", "income:cut(0,100000)"))
  expect_equal(as_keys(~ `my key`), "my key")
  expect_error(as_keys(~ age:sex), "is neither")
  expect_error(as_keys(age ~ sex), "nothing before")
})

test_that("options in messages are spelled as arguments, and files as frames", {
  said <- c("Reading", "Error: d.csv has 2 sheets: name one, --sheet Data (in Python: sheet='Data').")
  expect_equal(spoken(said, list(d.csv = "d")), "d has 2 sheets: name one, sheet = 'Data'.")
  expect_equal(respelled("give --missing-values NA,null (in Python: missing_values=['NA', 'null'])"),
               "give missing_values = c('NA', 'null')")
  expect_equal(respelled("Give it: --population-size (in Python: population_size=)."), "Give it: population_size.")
  expect_equal(respelled("with --overwrite\n(in Python: overwrite=True)"), "with overwrite = TRUE")
  expect_equal(respelled("run  unikat --debug  of R-hat -- and a--b"), "run  unikat --debug  of R-hat -- and a--b")
  expect_equal(respelled("as in --target 'tau1 <= 5', or --n 1000,5%"), "as in target = 'tau1 <= 5', or n = 1000,5%")
  expect_equal(respelled("No such option '--N'."), "No such option 'N'.")
  expect_equal(respelled("s.csv, as.csv, s.csv.gz and /tmp/a-b/s.csv", list(s.csv = "s")),
               "s, as.csv, s.gz and /tmp/a-b/s")
})

test_that("no option is taken for an argument whose name it begins", {
  needs_unikat()
  for (kind in c("assess", "compare", "protect", "check", "verify", "synthesize", "attack", "evaluate")) {
    said <- call_unikat(c(kind, "--help", "all"))$printed
    flags <- unlist(regmatches(said, gregexpr("(?m)^  (-h, )?--[a-z-]+", said, perl = TRUE)))
    flags <- gsub("-", "_", sub("^.*--", "", flags))
    expect_gt(length(flags), 30)
    before <- names(formals(get(kind)))
    before <- before[seq_len(match("...", before) - 1)]
    for (argument in before) expect_equal(setdiff(flags[startsWith(argument, flags)], argument), character())
  }
})
