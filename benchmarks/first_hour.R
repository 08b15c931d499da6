# What first_hour.py asks of sdcMicro and synthpop: a task, a file with a column `weight`, and more.
# The last line that is printed is the answer, as JSON.

suppressMessages({
  told <- commandArgs(TRUE)
  frame <- read.csv(told[2], colClasses = "character", check.names = FALSE)
  keys <- setdiff(names(frame), "weight")
  for (name in keys) {
    # synthpop refuses factors of more than 60 levels, and its trees do not end with them.
    many <- length(unique(frame[[name]])) > 30 && !anyNA(suppressWarnings(as.numeric(frame[[name]])))
    frame[[name]] <- if (many) as.numeric(frame[[name]]) else factor(frame[[name]])
  }
  if ("weight" %in% names(frame)) frame$weight <- as.numeric(frame$weight)
})
answer <- function(...) cat("\n", jsonlite::toJSON(list(...), auto_unbox = TRUE, digits = 10), "\n", sep = "")
object <- function() sdcMicro::createSdcObj(frame, keyVars = keys, weightVar = "weight")

risk <- function() {
  suppressMessages(library(sdcMicro))
  took <- system.time({
    sdc <- object()
    each <- sdc@risk$individual
  })[["elapsed"]]
  alone <- each[, "fk"] == 1
  main <- as.formula(paste("~", paste(sprintf("`%s`", keys), collapse = "+")))
  models <- sapply(c("default", "CE", "PML", "weightedLLM", "IPF"), function(method) {
    found <- tryCatch(modRisk(sdc, method = method, formulaM = main)@risk$model, error = conditionMessage)
    if (is.list(found)) c(found$gr1, found$gr2) else found
  }, simplify = FALSE)
  answer(uniques = sum(alone), expected = sdc@risk$global$risk_ER, expected_of_uniques = sum(each[alone, "risk"]),
         high = sum(each[, "risk"] > 0.1), models = models, cells = nrow(unique(frame[keys])),
         first_answer = took, version = as.character(packageVersion("sdcMicro")))
}

suppress <- function() {
  suppressMessages(library(sdcMicro))
  took <- system.time(found <- localSuppression(object(), k = as.integer(told[4])))[["elapsed"]]
  write.csv(extractManipData(found)[keys], told[3], row.names = FALSE, na = "")
  answer(took = took)
}

synthetic <- function() {
  suppressMessages(library(synthpop))
  took <- system.time(made <- syn(frame[keys], seed = as.integer(told[4]), print.flag = FALSE))[["elapsed"]]
  write.csv(made$syn, told[3], row.names = FALSE)
  said <- tryCatch({
    found <- disclosure(made, frame[keys], keys = keys[-length(keys)], target = keys[length(keys)], print.flag = FALSE)
    list(ident = found$ident, attrib = found$attrib)
  }, error = conditionMessage)
  answer(took = took, replicated_uniques = replicated.uniques(made, frame[keys])$res_tab["Replicated uniques", 1], said = said,
         version = as.character(packageVersion("synthpop")))
}

# A synthetic file of every sample, which the columns `n` and `repeat` tell apart.
many <- function() {
  suppressMessages(library(synthpop))
  columns <- setdiff(keys, c("n", "repeat"))
  made <- lapply(split(frame[keys], list(frame$n, frame$`repeat`), drop = TRUE), function(part) {
    drawn <- syn(droplevels(part[columns]), seed = 1, print.flag = FALSE)$syn
    data.frame(lapply(drawn, as.character), n = part$n, `repeat` = part$`repeat`, check.names = FALSE)
  })
  write.csv(do.call(rbind, made), told[3], row.names = FALSE)
  answer(version = as.character(packageVersion("synthpop")))
}

get(told[1])()
