# Finding the program, and calling it.

#' The Python that runs unikat
#'
#' Looks, in this order, at what was set in this session, the environment
#' variables `UNIKAT_PYTHON` and `RETICULATE_PYTHON`, the environment that
#' [install_unikat()] makes, the program `unikat` on the path, and `python3`
#' on the path. Each is asked for its version of unikat; the first that
#' answers is used.
#'
#' @param python Path of a Python that has unikat, to be used in this session;
#'   `NULL` looks for one.
#' @return The path, with the attribute `version`; `unikat_python()` fails if
#'   there is none.
#' @examples
#' \dontrun{
#' unikat_python()
#' unikat_python("~/venvs/unikat/bin/python")
#' }
#' @export
unikat_python <- function(python = NULL) {
  if (!is.null(python)) {
    python <- path.expand(python)
    found <- works(python)
    if (is.null(found)) {
      stop(python, " is not there, or has no unikat. Install it there with",
           '  install_unikat(python = "', python, '")  or name another Python.', call. = FALSE)
    }
    session$found <- found
  }
  if (is.null(session$found)) session$found <- look()
  if (is.null(session$found)) {
    stop("No Python with unikat was found. Run  install_unikat()  once, or name a Python that has it:",
         '  unikat_python("/path/to/python").', call. = FALSE)
  }
  structure(session$found$command[[1]], version = session$found$version)
}

# What is remembered until R ends.
session <- new.env(parent = emptyenv())

look <- function() {
  named <- Sys.getenv(c("UNIKAT_PYTHON", "RETICULATE_PYTHON"))
  for (name in names(named)[nzchar(named)]) {
    found <- works(named[[name]])
    if (!is.null(found)) return(found)
    # Who names one wants that one.
    if (name == "UNIKAT_PYTHON") {
      stop("UNIKAT_PYTHON is ", named[[name]], ", which is not there or has no unikat. Correct it, or run",
           '  install_unikat(python = "', named[[name]], '").', call. = FALSE)
    }
  }
  program <- Sys.which("unikat")
  candidates <- c(own_python(), if (nzchar(program)) program, Sys.which(c("python3", "python")))
  for (candidate in candidates[nzchar(candidates)]) {
    found <- works(candidate)
    if (!is.null(found)) return(found)
  }
  NULL
}

# The command of a Python or of the program itself, and its version; NULL if it does not work.
works <- function(path) {
  is_program <- grepl("^unikat(\\.exe)?$", basename(path))
  # -P: modules that lie beside the data are not imported.
  command <- if (is_program) path else c(path, "-P", "-m", "unikat")
  said <- tryCatch(
    processx::run(command[[1]], c(command[-1], "--version"), error_on_status = FALSE, timeout = 120, env = outside()),
    error = function(e) NULL
  )
  if (is.null(said) || !identical(said$status, 0L)) return(NULL)
  version <- regmatches(said$stdout, regexpr("[0-9]+\\.[0-9][^ \n]*", said$stdout))
  list(command = command, version = version)
}

# The environment of the program. The script that starts R puts folders before those in which
# programs look for libraries of C; a Python with libraries of its own would load the system's and
# fail. What it has put there is taken away again.
outside <- function(...) {
  env <- c(Sys.getenv(), PYTHONIOENCODING = "utf-8", ...)
  script <- file.path(R.home("etc"), "ldpaths")
  if (is.null(session$added)) session$added <- if (file.exists(script)) added_by(script) else c()
  for (name in names(session$added)) {
    now <- paste0(env[[name]], ":")
    put <- paste0(session$added[[name]], ":")
    if (startsWith(now, put)) env[[name]] <- sub(":$", "", substring(now, nchar(put) + 1))
    if (!nzchar(env[[name]])) env <- env[names(env) != name]
  }
  env[!duplicated(names(env), fromLast = TRUE)]
}

added_by <- function(script) {
  name <- if (Sys.info()[["sysname"]] == "Darwin") "DYLD_FALLBACK_LIBRARY_PATH" else "LD_LIBRARY_PATH"
  if (!nzchar(Sys.getenv(name))) return(c())
  before <- Sys.getenv()
  before <- c(before[!names(before) %in% c(name, "R_HOME")], R_HOME = R.home())
  said <- processx::run(
    "/bin/sh", c("-c", paste0(". \"$1\"; printf %s \"$", name, "\""), "sh", script),
    error_on_status = FALSE, env = before
  )
  if (said$status != 0 || !nzchar(said$stdout)) return(c())
  stats::setNames(said$stdout, name)
}

own_folder <- function() file.path(tools::R_user_dir("unikat", "data"), "python")

python_in <- function(folder) {
  if (.Platform$OS.type == "windows") file.path(folder, "Scripts", "python.exe")
  else file.path(folder, "bin", "python")
}

own_python <- function() python_in(own_folder())

#' Install the program unikat
#'
#' Makes a Python environment of its own and installs unikat into it with pip.
#' Needs Python 3.11 or newer. [unikat_python()] finds the environment in
#' every later session.
#'
#' @param source What pip installs: the name of the package, or a folder or
#'   wheel of unikat. Further parts are named in brackets: `"unikat[stat]"`
#'   reads and writes files of SPSS and Stata, which frames with labels of
#'   haven need.
#' @param python A Python to install into; `NULL` makes an environment with
#'   the `python3` on the path.
#' @return The path of the Python, invisibly.
#' @export
install_unikat <- function(source = "unikat[stat]", python = NULL) {
  if (is.null(python)) {
    base <- Sys.which(c("python3", "python"))
    base <- base[nzchar(base)]
    if (!length(base)) stop("No Python is on the path. Install Python 3.11 or newer first.", call. = FALSE)
    folder <- own_folder()
    dir.create(dirname(folder), recursive = TRUE, showWarnings = FALSE)
    message("Making a Python environment in ", folder)
    pip(base[[1]], c("-m", "venv", folder), "the environment could not be made")
    python <- own_python()
  }
  # Brackets name parts of the package, also behind the path of a folder.
  place <- sub("\\[[^]]*\\]$", "", source)
  if (file.exists(place)) source <- sub(place, normalizePath(place), source, fixed = TRUE)
  message("Installing ", source)
  pip(python, c("-m", "pip", "install", "--upgrade", source), "pip failed")
  session$found <- NULL
  invisible(unikat_python(python))
}

pip <- function(python, arguments, failed) {
  said <- processx::run(python, arguments, error_on_status = FALSE, stderr_to_stdout = TRUE, env = outside())
  if (said$status != 0) {
    last <- utils::tail(strsplit(trimws(said$stdout), "\n")[[1]], 5)
    stop("unikat was not installed: ", failed, ".\n", paste(last, collapse = "\n"), call. = FALSE)
  }
}

# Call the program: its exit code and what it printed. Errors of unikat become errors of R.
call_unikat <- function(arguments, progress = FALSE, known = list()) {
  unikat_python()
  command <- session$found$command
  told <- character()
  hear <- function(line, process) {
    told <<- c(told, line)
    if (progress && !grepl("^Error: ", line)) message(respelled(line, known))
  }
  said <- processx::run(
    command[[1]], c(command[-1], arguments),
    error_on_status = FALSE, stderr_line_callback = hear, cleanup_tree = TRUE,
    # What is printed is not wider than the console.
    env = outside(COLUMNS = as.character(getOption("width")))
  )
  if (!said$status %in% c(0, 2, 3) || any(grepl("^Error: ", told))) {
    stop(spoken(told, known), call. = FALSE)
  }
  list(code = said$status, printed = said$stdout, told = told)
}

# What unikat says of an error.
spoken <- function(lines, known = list()) {
  from <- grep("^Error: ", lines)
  if (!length(from)) {
    return(paste(c("unikat ended without an answer.", utils::tail(lines, 3)), collapse = "\n"))
  }
  respelled(sub("^Error: ", "", paste(lines[from[[length(from)]]:length(lines)], collapse = "\n")), known)
}

# A text of unikat with options spelled as arguments of R, and files as the frames they were.
respelled <- function(text, known = list()) {
  value <- "('[^']*'|\"[^\"]*\"|\\[[^]]*\\]|[^()]*)"
  both <- paste0("--[a-z][a-z0-9-]*(\\s+('[^']*'|[^\\s()]+))?\\s+\\(in\\s+Python:\\s+([a-z_0-9]+)=", value, "\\)")
  text <- gsub(both, "\\3 = \\4", text, perl = TRUE)
  # Where no value was shown the name is enough.
  text <- gsub("([a-z_0-9]) = (?=[.,;:) \n]|$)", "\\1", text, perl = TRUE)
  text <- gsub("= True\\b", "= TRUE", gsub("= \\[([^]]*)\\]", "= c(\\1)", text))
  # A value in quotes, or a number.
  text <- gsub("(?<![\\w-])(?<!unikat )--([a-z][a-z0-9-]*)\\s+(?='[^']*'|[0-9])", "--\\1 = ", text, perl = TRUE)
  text <- gsub("The command line is not valid", "The call is not valid", text, fixed = TRUE)
  spell <- gregexpr("(?<![\\w-])(?<!unikat )--[A-Za-z][A-Za-z0-9-]*", text, perl = TRUE)
  regmatches(text, spell) <- lapply(regmatches(text, spell), function(flags) {
    vapply(flags, function(flag) gsub("-", "_", sub("^--", "", flag)), "")
  })
  for (file in names(known)) {
    # As a whole: s.csv is no part of results.csv.
    plain <- gsub("([^A-Za-z0-9_/ ])", "\\\\\\1", file)
    text <- gsub(paste0("(?<![\\w.-])", plain, "(?![\\w-])"), known[[file]], text, perl = TRUE)
  }
  text
}
