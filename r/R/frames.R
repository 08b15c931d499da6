# Data frames to files that unikat reads, and back.

# A folder of its own for a call, that its owner alone can read.
new_place <- function() {
  folder <- tempfile("unikat-")
  if (!dir.create(folder, mode = "0700")) stop("A temporary folder cannot be made in ", tempdir(), ".", call. = FALSE)
  place <- list(folder = folder)
  place$put <- function(frame, name) write_frame(check_frame(frame, name), folder, name)$path
  place$json <- function(value, name) {
    path <- file.path(folder, name)
    writeLines(jsonlite::toJSON(value, auto_unbox = TRUE, null = "null", digits = NA), path, useBytes = TRUE)
    path
  }
  place
}

check_frame <- function(frame, name) {
  if (is.character(frame) && length(frame) == 1) {
    stop(name, " has to be a data frame, not the name of a file. Read it first:  data <- read.csv(\"", frame,
         "\", stringsAsFactors = TRUE),  or haven::read_sav() or haven::read_dta() for SPSS and Stata.", call. = FALSE)
  }
  if (!is.data.frame(frame)) {
    stop(name, " has to be a data frame, a survey design or an object of sdcMicro; it is of class ",
         class(frame)[[1]], ".", call. = FALSE)
  }
  frame <- as.data.frame(frame)
  if (!nrow(frame)) stop(name, " has no rows.", call. = FALSE)
  inner <- vapply(frame, function(x) is.list(x) || !is.null(dim(x)) || is.complex(x) || is.raw(x), NA)
  if (any(inner)) {
    stop(name, ": a column has to be a vector or a factor; ", paste(names(frame)[inner], collapse = ", "),
         if (sum(inner) == 1) " is not." else " are not.", " Leave it out or convert it.", call. = FALSE)
  }
  frame
}

is_labelled <- function(x) inherits(x, "haven_labelled")

# Write a frame: CSV with a codebook of its factors, or where haven has labelled columns the format
# in which a file says itself which codes mean missing.
write_frame <- function(frame, folder, name) {
  labelled <- vapply(frame, is_labelled, NA)
  if (!any(labelled)) return(write_csv(frame, folder, name))
  if (!requireNamespace("haven", quietly = TRUE)) {
    stop("Columns with labels need the package haven: install.packages(\"haven\").", call. = FALSE)
  }
  tagged <- vapply(frame[labelled], function(x) {
    codes <- attr(x, "labels")
    (is.double(x) && any(haven::is_tagged_na(unclass(x)))) ||
      (is.double(codes) && any(haven::is_tagged_na(codes)))
  }, NA)
  ending <- if (any(tagged)) "dta" else "sav"
  path <- file.path(folder, paste0(name, ".", ending))
  written <- as.data.frame(lapply(frame, function(x) if (is.logical(x)) as.integer(x) else x), optional = TRUE)
  names(written) <- names(frame)
  tryCatch(
    if (ending == "dta") haven::write_dta(written, path) else haven::write_sav(written, path),
    error = function(e) {
      stop(name, " has labels of haven and cannot be written as .", ending, ": ",
           sub("\n.*", "", conditionMessage(e)), " Rename or leave out the column.", call. = FALSE)
    }
  )
  Sys.chmod(path, "0600")
  list(path = path, codebook = list())
}

write_csv <- function(frame, folder, name) {
  path <- file.path(folder, paste0(name, ".csv"))
  texts <- lapply(frame, as_texts)
  quoted <- lapply(texts, function(x) {
    ifelse(is.na(x) | !nzchar(x), "", paste0("\"", gsub("\"", "\"\"", x, fixed = TRUE), "\""))
  })
  # Numbers stand without quotes, so that they are read as such.
  numbers <- vapply(frame, function(x) is.numeric(x) && !is.factor(x), NA)
  quoted[numbers] <- lapply(texts[numbers], function(x) ifelse(is.na(x), "", x))
  head <- paste0("\"", gsub("\"", "\"\"", names(frame), fixed = TRUE), "\"", collapse = ",")
  lines <- enc2utf8(c(head, do.call(paste, c(unname(quoted), sep = ","))))
  file <- file(path, open = "wb")
  on.exit(close(file))
  writeLines(lines, file, useBytes = TRUE)
  Sys.chmod(path, "0600")
  factors <- vapply(frame, is.factor, NA)
  codebook <- lapply(frame[factors], function(x) {
    # A level without a record is none, unless a codebook says so: as for categories in Python.
    list(levels = as.list(levels(droplevels(x))), ordered = is.ordered(x))
  })
  list(path = path, codebook = codebook)
}

# Values as texts from which the same values can be made again.
as_texts <- function(x) {
  if (is.factor(x) || is.character(x)) return(enc2utf8(as.character(x)))
  if (inherits(x, "POSIXt")) return(format(x, "%Y-%m-%d %H:%M:%S"))
  if (inherits(x, "Date")) return(format(x, "%Y-%m-%d"))
  if (is.logical(x)) return(ifelse(is.na(x), NA_character_, ifelse(x, "TRUE", "FALSE")))
  if (inherits(x, "integer64")) return(as.character(x))
  if (is.integer(x)) return(ifelse(is.na(x), NA_character_, format(x, scientific = FALSE, trim = TRUE)))
  x <- as.numeric(x)
  short <- trimws(formatC(x, digits = 15, format = "fg", flag = "#"))
  short <- sub("\\.$", "", sub("(\\.[0-9]*?)0+$", "\\1", short, perl = TRUE))
  exact <- suppressWarnings(as.numeric(short)) == x
  short[!exact %in% TRUE] <- format(x[!exact %in% TRUE], digits = 17, trim = TRUE)
  short[!is.finite(x)] <- NA_character_
  short
}

# Read a file of records that unikat wrote, with the types of the frame from which it was made.
read_frame <- function(path, original, codebook = list()) {
  ending <- tolower(tools::file_ext(path))
  found <- if (ending == "csv") {
    utils::read.csv(path, colClasses = "character", na.strings = "", check.names = FALSE,
                    encoding = "UTF-8", strip.white = FALSE)
  } else if (ending == "dta") {
    as.data.frame(haven::read_dta(path))
  } else {
    as.data.frame(haven::read_sav(path, user_na = TRUE))
  }
  for (name in names(found)) {
    if (name %in% names(original)) found[[name]] <- restored(found[[name]], original[[name]], codebook[[name]])
    else if (ending == "csv") found[[name]] <- utils::type.convert(found[[name]], as.is = TRUE)
  }
  tibble::as_tibble(found)
}

# A column as it came back, in the type that it had.
restored <- function(found, original, entry = NULL) {
  if (is_labelled(original)) return(if (same_codes(found, original)) original else entitled(found, original))
  if (is_labelled(found)) found <- as.character(haven::as_factor(found))
  texts <- if (is.character(found)) found else as_texts(found)
  texts[!nzchar(texts)] <- NA
  written <- as_texts(if (is.logical(original) && is.numeric(found)) as.integer(original) else original)
  written[!nzchar(written)] <- NA
  if (identical(texts, written)) return(original)
  place <- match(texts, written)
  place[is.na(texts)] <- match(NA, written)
  # All values are some of the original's: whatever its class, they are taken from there.
  if (!any(is.na(place) & !is.na(texts))) {
    result <- original[place]
    attributes(result) <- attributes(original)[setdiff(names(attributes(original)), "names")]
    return(result)
  }
  if (is.factor(original)) {
    return(entitled(factor_of(texts, entry, is.ordered(original), levels(original)), original))
  }
  if (is.character(original)) return(entitled(texts, original))
  number <- utils::type.convert(texts, as.is = TRUE, na.strings = "NA")
  if (is.numeric(original) && is.numeric(number)) {
    if (is.integer(original) && is.double(number) && all(number == round(number), na.rm = TRUE) &&
          all(abs(number) < .Machine$integer.max, na.rm = TRUE)) number <- as.integer(number)
    return(entitled(number, original))
  }
  # Groups of numbers or dates.
  entitled(factor_of(texts, entry, TRUE, character()), original)
}

# A column with the label that the original has, as of haven.
entitled <- function(found, original) {
  label <- attr(original, "label", exact = TRUE)
  if (!is.null(label)) attr(found, "label") <- label
  found
}

same_codes <- function(found, original) {
  plain <- function(x) {
    tags <- if (is.double(x)) haven::na_tag(unclass(x)) else rep(NA_character_, length(x))
    list(as.vector(unclass(x)), as.vector(tags))
  }
  length(found) == length(original) && isTRUE(all.equal(plain(found), plain(original), check.attributes = FALSE))
}

factor_of <- function(texts, entry, ordered, before) {
  present <- unique(texts[!is.na(texts)])
  declared <- as.character(unlist(entry$levels))
  levels <- if (all(present %in% declared)) declared[declared %in% present]
            else if (all(present %in% before)) before
            else present[order(first_number(present), present)]
  factor(texts, levels = levels, ordered = ordered)
}

# By what a group such as "20-29", "< 20" or ">= 85" is put in order.
first_number <- function(text) {
  number <- suppressWarnings(as.numeric(sub("^[^0-9-]*(-?[0-9]+(\\.[0-9]+)?).*$", "\\1", text)))
  number - ifelse(grepl("^<", text), 1e-6, 0)
}
