# What is shown of the answer of a run.

#' @export
print.unikat_run <- function(x, ...) {
  cat(x$printed, "\n", sep = "")
  parts <- c(
    if (!is.null(x$records)) "$records has the risk of each record",
    if (x$kind == "protect") "$data is the protected file",
    if (x$kind == "synthesize") "$data has the synthetic files",
    "browse() opens the report"
  )
  cat(paste(parts, collapse = "; "), ".\n", sep = "")
  invisible(x)
}

#' Main numbers of a run
#'
#' @param object What [assess()] or another function returned.
#' @param ... Not used.
#' @return A tibble with a row for each number that has an interval: its
#'   `median` and the `lower` and `upper` end at `level`.
#' @export
summary.unikat_run <- function(object, ...) {
  found <- intervals(object$numbers)
  of <- function(part) vapply(found, function(x) as.numeric(x[[part]] %||% NA_real_), 0, USE.NAMES = FALSE)
  tibble::tibble(measure = as.character(names(found)), median = of("median"), lower = of("lower"),
                 upper = of("upper"), level = of("level"))
}

# Numbers with an interval, by their place: those of the run, and of its parts such as before.
intervals <- function(numbers, deep = TRUE) {
  is_one <- vapply(numbers, function(x) is.list(x) && all(c("median", "lower", "upper") %in% names(x)), NA)
  found <- numbers[is_one]
  inner <- numbers[!is_one & vapply(numbers, function(x) is.list(x) && !is.data.frame(x), NA)]
  if (deep) found <- c(found, do.call(c, lapply(inner, intervals, deep = FALSE)))
  found
}

#' Charts of a run
#'
#' `charts()` returns the charts of the report as documents of SVG, and
#' `plot()` shows one in the viewer, a notebook or a document of R Markdown.
#'
#' @param x What [assess()] or another function returned.
#' @param which Number of the chart, or part of its title.
#' @param ... Not used.
#' @return `charts()` a list of texts, named by the titles of the charts.
#'   `plot()` HTML that is shown when it is printed, or where htmltools is not
#'   installed the path of a file, invisibly.
#' @export
charts <- function(x) {
  check_run(x)
  style <- sub("(?s)^.*?<style>(.*?)</style>.*$", "\\1", x$page, perl = TRUE)
  found <- regmatches(x$page, gregexpr("(?s)<svg class=\"unikat unikat-wide\".*?</svg>", x$page, perl = TRUE))[[1]]
  titles <- sub("(?s)^.*?<title[^>]*>(.*?)</title>.*$", "\\1", found, perl = TRUE)
  # The page hides the wide chart on narrow screens; alone it is always shown.
  style <- paste0("<style>", style, "\n.unikat-wide { display: block !important; }</style>")
  stats::setNames(as.list(sub("(<svg[^>]*>)", paste0("\\1", gsub("\\", "\\\\", style, fixed = TRUE)), found)), titles)
}

#' @rdname charts
#' @export
plot.unikat_run <- function(x, which = 1, ...) {
  all <- charts(x)
  if (!length(all)) stop("The report of this run has no charts.", call. = FALSE)
  at <- if (is.character(which)) grep(which, names(all), ignore.case = TRUE) else which
  if (!length(at) || is.na(at[[1]]) || at[[1]] < 1 || at[[1]] > length(all)) {
    stop("There is no chart ", which, ". Charts of this run are: ",
         paste0(seq_along(all), " ", names(all), collapse = "; "), ".", call. = FALSE)
  }
  svg <- all[[at[[1]]]]
  if (requireNamespace("htmltools", quietly = TRUE)) {
    height <- as.numeric(sub("(?s)^.*?viewBox=\"0 0 [0-9.]+ ([0-9.]+)\".*$", "\\1", svg, perl = TRUE))
    # A frame of its own, so that its style and that of the document do not meet.
    frame <- htmltools::tags$iframe(
      srcdoc = paste0("<!DOCTYPE html><html><body style=\"margin:0\">", svg, "</body></html>"),
      title = names(all)[[at[[1]]]], style = "border:0;width:100%;max-width:42.5rem", height = height + 10
    )
    return(htmltools::browsable(frame))
  }
  open_file(svg, ".svg")
}

#' Open the report of a run
#'
#' @param x What [assess()] or another function returned.
#' @param committee Open the two pages for a committee instead, of a
#'   protection or a check.
#' @return The path of the file that is shown, invisibly. It lies in the
#'   temporary folder of the session, which R removes when it ends.
#' @export
browse <- function(x, committee = FALSE) {
  check_run(x)
  if (committee && is.null(x$committee)) {
    stop("Pages for a committee are of a protection or a check.", call. = FALSE)
  }
  open_file(if (committee) x$committee else x$page, ".html")
}

check_run <- function(x) {
  if (!inherits(x, "unikat_run")) {
    stop("This is for what assess(), protect() and the like return; it was given an object of class ",
         class(x)[[1]], ".", call. = FALSE)
  }
}

open_file <- function(text, ending) {
  path <- tempfile("unikat-", fileext = ending)
  file.create(path)
  Sys.chmod(path, "0600")
  writeLines(enc2utf8(text), path, useBytes = TRUE)
  if (interactive()) utils::browseURL(path)
  invisible(path)
}
