// Tables and pictures of the pages as files: "/table.csv?of=…", "/picture.svg?of=…", "/picture.png?of=…".
#pragma once

#include <span>
#include <string>

#include "http/http_server.h"
#include "inspect/picture/picture.h"
#include "pages/pages.h"

namespace rivulet {

// Complete tables, with the history's column names for its rows. `of` in `request` selects one: of the first of `runs`
// "rounds", "clients", "tasks" (with `round` or `client`), "log", "configuration" (keys without their defaults) or
// "layers"; of all of them "curve" (with `metric`), "results" or "differences". INVALID_ARGUMENT: there is no table or
// picture of that name. NOT_FOUND: its run, round, client or metric is unknown.
StatusOr<std::string> TableCsv(std::span<const PlacedRun> runs, const HttpRequest& request);
// Every run of a history: its status, its results, and the differing keys.
StatusOr<std::string> RunsCsv(History& history);

// "curve" (with `metric`; for several runs as in a comparison), "rounds", "tasks", "train_loss", "update_norm",
// "staleness", "round" (with `round`), "client" (with `client`), "norms", "changes", "labels". Errors as above.
StatusOr<Picture> NamedPicture(std::span<const PlacedRun> runs, const HttpRequest& request);

}  // namespace rivulet
