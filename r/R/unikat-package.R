#' unikat: disclosure risk of categorical microdata
#'
#' Functions [assess()], [protect()], [check()], [verify()], [synthesize()],
#' [attack()] and [evaluate()] call the program unikat on data frames. It has
#' to be installed once: [install_unikat()].
#'
#' Data go to the program by files in a folder that its owner alone can read.
#' The folder is removed when the call ends, also by an error. Nothing is sent
#' anywhere.
#'
#' @keywords internal
"_PACKAGE"
