# One function for each kind of run.

#' Estimate, reduce and try the disclosure risk of microdata
#'
#' `assess()` estimates how many records of a file that are unique in it are
#' also unique in the population (τ1), how many matches of an intruder are
#' correct (τ2), and the risk of each record. `compare()` does so by several
#' models. `protect()` recodes, suppresses or perturbs the file to reach a
#' target with the least loss. `check()` judges a file by a policy and
#' `verify()` says what any program did to a file. `synthesize()` draws
#' synthetic files, and `attack()` tries them as an intruder would.
#' `evaluate()` takes a file as the population and tries models on samples
#' from it.
#'
#' @section Data:
#' Factors keep the order of their levels, and ordered factors are ordered.
#' Columns with labels of haven keep labels and codes that mean missing, also
#' tagged ones. Of a design of survey the weights and the strata are used, of
#' an object of sdcMicro its keys, weights, households and sensitive
#' variables, and its data as they are now. In a formula of `keys` a call
#' groups a column: `~ sex + width(age, 5) + cut(income, 0, 1000)`.
#'
#' @section Options:
#' Every further argument is an option of unikat of the same name:
#' [unikat_options()] lists them. `TRUE` sets an option that takes no value,
#' a vector is a list, and a named list has an entry for each column, as in
#' `missing_values = list(AGE = c(-1, 999), SEX = 9)`. Data frames can stand
#' where an option takes a file, and a vector of values where `weights`,
#' `strata` or `household` takes a column. Values of the specification are
#' set by `set = list(sampling.thin = 5)`.
#'
#' @section Confidentiality:
#' The frame is written to a temporary folder that you alone can read, and the
#' folder is removed when the call ends. Without `out` the results are in the
#' object alone: it holds the risk of every record, and `saveRDS()` writes
#' that too.
#'
#' @param data,original A data frame, a survey design or an object of sdcMicro.
#'   For `evaluate()` its rows are the whole population.
#' @param keys Key variables, those an intruder may know: names, or a formula.
#' @param population_size Units in the population from which the sample was
#'   drawn. Can be left out where weights tell it.
#' @param target What the protected file has to reach: `"tau1 <= 5"`,
#'   `"r1 <= 0.2"`, `"k >= 3"` and so on.
#' @param policy Path of a policy.toml.
#' @param protected The file after protection, by whatever program.
#' @param synthetic Synthetic files: a data frame, a list of them, or what
#'   `synthesize()` or `syn()` of synthpop returned.
#' @param models Models to compare or to try, such as `c("hdp", "loglinear")`.
#' @param n Sizes of the samples, in units or as shares: `c(1000, "5%")`.
#' @param ... Options of unikat.
#' @param out Folder for the results; `NULL` keeps none.
#' @param progress Whether messages say what is being done.
#' @return An object of class `unikat_run`, a list with
#'   \item{numbers}{all numbers of the report, by name}
#'   \item{records}{of an assessment, a tibble with a row for each record, in
#'     the order of `data`}
#'   \item{data}{of a protection the protected file, of a synthesis a list of
#'     the synthetic files: tibbles with the types of `data`}
#'   \item{tables}{further tables of the run, tibbles by name}
#'   \item{converged, met}{whether all chains converged; whether a target or
#'     threshold is met, `NA` where none was asked for}
#'   \item{page}{the report, as HTML; [browse()] opens it}
#'
#'   [print()] says the answer, [summary()] returns the main numbers and
#'   [plot()] shows a chart of the report.
#' @examples
#' \dontrun{
#' risk <- assess(survey, ~ age + sex + region, population_size = 712174)
#' risk
#' head(risk$records)
#' safe <- protect(survey, ~ age + sex + region, population_size = 712174,
#'                 target = "tau1 <= 5")
#' safe$data
#' }
#' @name runs
NULL

#' @rdname runs
#' @export
assess <- function(data, keys = NULL, population_size = NULL, ..., out = NULL, progress = interactive()) {
  start("assess", data, substitute(data), list(keys = named(keys), population_size = population_size, ...), out, progress)
}

#' @rdname runs
#' @export
compare <- function(data, keys = NULL, population_size = NULL, ..., models = NULL, out = NULL,
                    progress = interactive()) {
  start("compare", data, substitute(data),
        list(keys = named(keys), population_size = population_size, models = models, ...), out, progress)
}

#' @rdname runs
#' @export
protect <- function(data, keys = NULL, population_size = NULL, target = NULL, ..., out = NULL,
                    progress = interactive()) {
  start("protect", data, substitute(data),
        list(keys = named(keys), population_size = population_size, target = target, ...), out, progress)
}

#' @rdname runs
#' @export
check <- function(data, policy, population_size = NULL, ..., out = NULL, progress = interactive()) {
  start("check", data, substitute(data), list(policy = policy, population_size = population_size, ...), out, progress)
}

#' @rdname runs
#' @export
verify <- function(original, protected, keys = NULL, population_size = NULL, ..., out = NULL,
                   progress = interactive()) {
  start("verify", original, substitute(original), list(keys = named(keys), population_size = population_size, ...), out,
        progress, second = protected)
}

#' @rdname runs
#' @export
synthesize <- function(data, keys = NULL, ..., out = NULL, progress = interactive()) {
  start("synthesize", data, substitute(data), list(keys = named(keys), ...), out, progress)
}

#' @rdname runs
#' @export
# The option population would be taken for population_size, if that stood before the dots.
attack <- function(original, synthetic = NULL, keys = NULL, ..., population_size = NULL, out = NULL,
                   progress = interactive()) {
  if (inherits(synthetic, "unikat_run")) synthetic <- synthetic$data
  if (inherits(synthetic, "synds")) synthetic <- synthetic$syn
  start("attack", original, substitute(original),
        list(synthetic = synthetic, keys = named(keys), population_size = population_size, ...), out, progress)
}

#' @rdname runs
#' @export
evaluate <- function(data, keys = NULL, n = NULL, models = NULL, ..., out = NULL, progress = interactive()) {
  start("evaluate", data, substitute(data), list(keys = named(keys), n = n, models = models, ...), out, progress)
}

# Keys; what was meant as names and is read as objects of R is explained.
named <- function(keys) {
  tryCatch(keys, error = function(e) {
    stop("keys: ", conditionMessage(e), ". Give names in quotes, such as c(\"age\", \"sex\"), or a formula, ~ age + sex.",
         call. = FALSE)
  })
}

start <- function(kind, data, said, options, out, progress, second = NULL) {
  if (any(!nzchar(names(options)))) {
    stop("Options have names, such as model = \"hdp\"; one has none.", call. = FALSE)
  }
  name <- if (is.name(said) && grepl("^[A-Za-z][A-Za-z0-9._]*$", as.character(said))) gsub(".", "_", said, fixed = TRUE) else "data"
  place <- new_place()
  on.exit(unlink(place$folder, recursive = TRUE, force = TRUE))
  given <- understood(frame_of(data), name, kind)
  options <- options[!vapply(options, is.null, NA)]
  for (one in names(given$options)) if (is.null(options[[one]])) options[[one]] <- given$options[[one]]
  for (one in intersect(c("weights", "strata", "household"), names(options))) {
    values <- options[[one]]
    if (is.atomic(values) && length(values) > 1 && length(values) == nrow(given$frame)) {
      given <- with_column(given, one, values, character())
      options[[one]] <- given$options[[one]]
    }
  }
  file <- write_frame(given$frame, place$folder, name)
  if (is.null(options$codebook) || is.list(options$codebook)) {
    codebook <- utils::modifyList(file$codebook, as.list(options$codebook))
    options$codebook <- if (length(codebook)) codebook
  }
  words <- c(kind, file$path)
  if (!is.null(second)) words <- c(words, place$put(understood(frame_of(second), "protected", kind)$frame, "protected"))
  for (one in names(options)) words <- c(words, as_words(one, options[[one]], place))
  folder <- if (is.null(out)) file.path(place$folder, "results") else path.expand(out)
  # Messages call frames by their names, not by those of files.
  files <- list.files(place$folder, pattern = "\\.(csv|sav|dta)$")
  known <- stats::setNames(as.list(tools::file_path_sans_ext(files)), files)
  if (is.null(out)) known[[folder]] <- "a temporary folder"
  said <- call_unikat(c(words, "--out", folder), progress, known)
  if (isTRUE(options$dry_run)) {
    text <- respelled(said$printed, known)
    cat(text)
    return(invisible(text))
  }
  found <- read_run(kind, folder, said, given, file$codebook, place)
  found$folder <- if (!is.null(out)) normalizePath(folder)
  asked <- intersect(c("target", "threshold", "policy"), names(options))
  found$met <- if (length(asked)) said$code != 3 && found$converged else NA
  if (said$code == 2) {
    least <- regmatches(said$told, regexpr("(?<=--max-sweeps )[0-9]+", said$told, perl = TRUE))
    warning("The chains have not converged: do not decide on these numbers. Run again with a higher limit",
            if (length(least)) paste0(", such as max_sweeps = ", least[[1]]),
            if (is.null(out)) "; with  out = \"FOLDER\"  a later run can continue." else ", and  resume = TRUE.",
            call. = FALSE)
  }
  found
}

frame_of <- function(data) if (inherits(data, "unikat_run")) data$data else data

# What a run left in its folder.
read_run <- function(kind, folder, said, given, codebook, place) {
  files <- list.files(folder)
  # Certificates, checksums and codebooks are no answers.
  answer <- setdiff(grep("\\.json$", files, value = TRUE),
                    c("manifest.json", "certificate.json", grep("codebook\\.json$", files, value = TRUE)))
  page <- setdiff(grep("\\.html$", files, value = TRUE), "committee.html")
  numbers <- jsonlite::fromJSON(file.path(folder, answer[[1]]))
  found <- list(kind = kind, numbers = numbers, converged = isTRUE(numbers$converged %||% TRUE))
  # The path of a folder that is gone tells nobody anything.
  lines <- strsplit(said$printed, "\n", fixed = TRUE)[[1]]
  found$printed <- paste(refilled(respelled(paste(lines[!grepl(folder, lines, fixed = TRUE)], collapse = "\n"))), collapse = "\n")
  found$page <- text_of(file.path(folder, page[[1]]))
  if ("committee.html" %in% files) found$committee <- text_of(file.path(folder, "committee.html"))
  found$tables <- lapply(table_files(files), function(file) read_table(file.path(folder, file), place))
  if (kind == "assess") found$records <- found$tables$records
  records <- grep("^(protected|synthetic_[0-9]+)\\.(csv|sav|dta)$", files, value = TRUE)
  records <- records[order(nchar(records), records)]
  frames <- lapply(records, function(file) {
    beside <- file.path(folder, sub("\\..*$", ".codebook.json", file))
    said <- if (file.exists(beside)) jsonlite::fromJSON(beside, simplifyVector = FALSE) else codebook
    made <- read_frame(file.path(folder, file), given$frame, said)
    made[setdiff(names(made), given$added)]
  })
  if (kind == "protect" && length(frames)) found$data <- frames[[1]]
  if (kind == "synthesize") found$data <- frames
  if ("plan.toml" %in% files) found$plan <- text_of(file.path(folder, "plan.toml"))
  structure(found, class = "unikat_run")
}

# Lines that became too long by another spelling, but for those of tables.
refilled <- function(text) {
  lines <- strsplit(text, "\n", fixed = TRUE)[[1]]
  long <- nchar(lines) > 90 & !grepl("\\S  +\\S", lines)
  lines[long] <- vapply(lines[long], function(line) paste(strwrap(line, 88), collapse = "\n"), "")
  lines
}

table_files <- function(files) {
  tables <- grep("\\.parquet$", files, value = TRUE)
  stats::setNames(tables, gsub("-", "_", sub("\\.parquet$", "", tables)))
}

read_table <- function(path, place) {
  csv <- file.path(place$folder, paste0(basename(path), ".csv"))
  call_unikat(c("export", path, "--out", csv, "--overwrite", "--quiet"))
  table <- utils::read.csv(csv, na.strings = "", check.names = FALSE, encoding = "UTF-8")
  flags <- vapply(table, function(x) is.character(x) && all(x %in% c("true", "false", NA)) && !all(is.na(x)), NA)
  table[flags] <- lapply(table[flags], `==`, "true")
  # Columns of texts are such also where none has a value.
  texts <- grepl("^(key_[0-9]|conflict)$", names(table))
  table[texts] <- lapply(table[texts], as.character)
  tibble::as_tibble(table)
}

text_of <- function(path) paste(readLines(path, encoding = "UTF-8", warn = FALSE), collapse = "\n")
