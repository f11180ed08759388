// Tables and pictures of the pages as files: "/table.csv?of=…", "/picture.svg?of=…", "/picture.png?of=…".
#pragma once

#include <span>
#include <string>

#include "http/http_server.h"
#include "inspect/picture/picture.h"
#include "pages/pages.h"

namespace rivulet {

// Whole tables, under the names of the history's columns where they are rows of it. `request`'s `of` says which: of the
// first of `runs` "rounds", "clients", "tasks" (with `round` or `client`), "log", "configuration" (keys other than
// their defaults) or "layers"; of all of them "curve" (with `metric`), "results" or "differences". INVALID_ARGUMENT:
// there is no table or picture of that name. NOT_FOUND: its run, round, client or metric is unknown.
StatusOr<std::string> TableCsv(std::span<const PlacedRun> runs, const HttpRequest& request);
// Every run of a history: how it stands, what it reached, and the keys that differ.
StatusOr<std::string> RunsCsv(History& history);

// "curve" (with `metric`; of several runs as a comparison draws it), "rounds", "tasks", "train_loss", "update_norm",
// "staleness", "round" (with `round`), "client" (with `client`), "norms", "changes", "labels". Errors as above.
StatusOr<Picture> NamedPicture(std::span<const PlacedRun> runs, const HttpRequest& request);

}  // namespace rivulet
