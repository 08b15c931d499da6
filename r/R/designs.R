# Survey designs and objects of sdcMicro: their frame, and the options that they imply.

# What a function was given: the frame that is written, options that it implies, and columns that
# were added for them.
understood <- function(data, name, kind) UseMethod("understood")

#' @export
understood.default <- function(data, name, kind) {
  if (is.matrix(data)) data <- as.data.frame(data)
  list(frame = check_frame(data, name), options = list(), added = character())
}

#' @export
understood.survey.design <- function(data, name, kind) {
  frame <- check_frame(data$variables, name)
  found <- list(frame = frame, options = list(), added = character())
  if (!kind %in% weighted) return(found)
  weights <- unname(1 / data$prob)
  if (length(weights) == nrow(frame) && any(weights != 1)) {
    found <- with_column(found, "weights", weights, all.vars(data$call$weights))
  }
  if (isTRUE(data$has.strata)) {
    # Of several stages the first: unikat has strata of units.
    strata <- data$strata[[1]]
    found <- with_column(found, "strata", as.character(strata), names(data$strata)[[1]])
  }
  # A design without clusters has one for each unit.
  clusters <- names(data$cluster)[vapply(data$cluster, anyDuplicated, 0L) > 0]
  if (length(clusters)) {
    message("The design has clusters (", paste(clusters, collapse = ", "), "). unikat takes clusters into account ",
            "if they are whole households; if they are, say  household = \"", clusters[[length(clusters)]], "\".")
  }
  found
}

#' @export
understood.svyrep.design <- function(data, name, kind) {
  frame <- check_frame(data$variables, name)
  found <- list(frame = frame, options = list(), added = character())
  if (kind %in% weighted) found <- with_column(found, "weights", unname(data$pweights), character())
  found
}

#' @export
understood.sdcMicroObj <- function(data, name, kind) {
  frame <- as.data.frame(sdc_slot(data, "origData"))
  named <- function(slot) {
    at <- sdc_slot(data, slot)
    if (is.numeric(at)) names(frame)[at] else as.character(at)
  }
  # The file as it is now: columns that sdcMicro has changed are in slots of their own.
  for (slot in c("manipKeyVars", "manipPramVars", "manipNumVars", "manipGhostVars", "manipStrataVar")) {
    changed <- sdc_slot(data, slot)
    for (column in intersect(names(changed), names(frame))) {
      # A key that is also pramed stands in both; the later one holds.
      frame[[column]] <- changed[[column]]
    }
  }
  options <- list(keys = named("keyVars"))
  if (kind %in% weighted) options$weights <- named("weightVar")
  if (kind != "evaluate") options$household <- named("hhId")
  if (kind == "assess") options$sensitive <- named("sensibleVar")
  gone <- setdiff(as.character(sdc_slot(data, "deletedVars")), unlist(options))
  list(
    frame = check_frame(frame[setdiff(names(frame), gone)], name),
    options = options[lengths(options) > 0], added = character()
  )
}

# Runs that take the weights of records; the others have no such option.
weighted <- c("assess", "protect", "check", "verify", "synthesize")

# A slot of an object of sdcMicro; what a step has not set is in the object before it.
sdc_slot <- function(object, name) {
  if (!methods::.hasSlot(object, name)) return(NULL)
  prev <- if (methods::.hasSlot(object, "prev")) methods::slot(object, "prev")
  if (!is.null(prev) && !name %in% methods::slot(object, "set")) return(sdc_slot(prev, name))
  methods::slot(object, name)
}

# Name the column that holds the values, or add one.
with_column <- function(found, option, values, named) {
  same <- length(named) == 1 && named %in% names(found$frame) &&
    isTRUE(all.equal(as.character(found$frame[[named]]), as.character(values)))
  if (!same) {
    named <- utils::tail(make.unique(c(names(found$frame), option), sep = "_"), 1)
    found$frame[[named]] <- values
    found$added <- c(found$added, named)
  }
  found$options[[option]] <- named
  found
}

`%||%` <- function(a, b) if (is.null(a)) b else a
