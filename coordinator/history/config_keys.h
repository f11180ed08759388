// A run's configuration by key, so that runs can be compared in SQL.
#pragma once

#include <cstdint>
#include <string_view>

#include "coordinator/history/database.h"
#include "engine/base/status.h"

namespace rivulet {

// Replaces the rows of `run` in run_key by those of `config`: TOML with one key per line, as scenarios are stored.
Status WriteConfigKeys(Database& db, int64_t run, std::string_view config);

}  // namespace rivulet
