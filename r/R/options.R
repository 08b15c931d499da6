# Arguments of R to options of the command line. There is no list of options here: what unikat does
# not know it refuses itself.

#' What options a function has
#'
#' Every argument of [assess()] and its like that is not named on their pages is
#' an option of unikat of the same name, with underscores for dashes.
#'
#' @param run Name of the function: `"assess"`, `"protect"` and so on.
#' @return The help of unikat, invisibly; it is printed.
#' @examples
#' \dontrun{
#' unikat_options("protect")
#' }
#' @export
unikat_options <- function(run = "assess") {
  said <- call_unikat(c(run, "--help", "all"))$printed
  cat(said)
  invisible(said)
}

# One option as words of the command line.
as_words <- function(name, value, place) {
  flag <- paste0("--", gsub("_", "-", name))
  if (is.null(value) || isFALSE(value)) return(character())
  if (isTRUE(value)) return(flag)
  if (is.data.frame(value)) return(c(flag, place$put(value, name)))
  if (is.list(value) && length(value) && all(vapply(value, is.data.frame, NA))) {
    paths <- mapply(place$put, value, paste0(name, "_", seq_along(value)))
    return(c(flag, paste(paths, collapse = ",")))
  }
  if (name == "set") {
    texts <- paste0(names(value), "=", vapply(value, setting, ""))
    return(as.vector(rbind(flag, texts)))
  }
  if (name == "codebook" && is.list(value)) {
    return(c(flag, place$json(value, "codebook.json")))
  }
  if (name == "keys") return(c(flag, paste(as_keys(value), collapse = ",")))
  c(flag, as_text(value, name))
}

# TRUE as a value of a specification in TOML.
setting <- function(value) {
  if (is.logical(value)) return(tolower(as.character(value)))
  if (length(value) > 1) {
    inner <- if (is.character(value)) dQuote(value, FALSE) else as_text(as.list(value), "set")
    return(paste0("[", paste(inner, collapse = ","), "]"))
  }
  as_text(value, "set")
}

as_text <- function(value, name) {
  if (inherits(value, "formula")) return(paste(all.vars(value), collapse = ","))
  if (is.function(value) || is.environment(value)) {
    stop(name, " cannot be a ", class(value)[[1]], "; unikat takes texts, numbers and data frames.", call. = FALSE)
  }
  if (!is.null(names(value))) {
    each <- vapply(value, function(one) as_text(unname(one), name), "")
    return(paste0(names(value), ": ", each, collapse = "; "))
  }
  if (is.list(value)) value <- unlist(value)
  if (is.factor(value)) value <- as.character(value)
  if (is.numeric(value)) value <- format(value, scientific = FALSE, digits = 15, trim = TRUE)
  if (anyNA(value)) stop(name, " has a missing value; give a text or a number.", call. = FALSE)
  paste(value, collapse = ",")
}

# Keys: texts, or a formula in which a call stands for a grouping: ~ sex + width(age, 5).
as_keys <- function(value) {
  if (!inherits(value, "formula")) return(as.character(value))
  if (length(value) != 2) stop("keys has the form ~ age + sex, with nothing before the ~.", call. = FALSE)
  summands(value[[2]], environment(value))
}

summands <- function(term, where) {
  if (is.call(term) && identical(term[[1]], as.name("+")) && length(term) == 3) {
    return(c(summands(term[[2]], where), summands(term[[3]], where)))
  }
  if (is.name(term)) return(as.character(term))
  if (is.call(term) && is.name(term[[1]]) && length(term) > 1 && is.name(term[[2]]) &&
        grepl("^[a-z]+$", as.character(term[[1]]))) {
    given <- vapply(as.list(term)[-(1:2)], function(one) as_text(eval(one, where), "keys"), "")
    return(paste0(as.character(term[[2]]), ":", as.character(term[[1]]), "(", paste(given, collapse = ","), ")"))
  }
  stop("keys: a formula has columns and groupings with + between them, such as ~ sex + width(age, 5); ",
       "'", deparse(term)[[1]], "' is neither.", call. = FALSE)
}
