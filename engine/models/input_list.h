// Inputs of a model as a list of tables, such as a scenario's [[model.inputs]]: docs/reference/models.md has the table
// of keys.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/setting.h"
#include "engine/base/status.h"
#include "engine/models/model_def.h"

namespace rivulet {

using InputTable = SettingValues;

// Parses "pixels" (bytes), "values" (floats) or "tokens" (integers).
StatusOr<FeatureEncoding> EncodingFromKind(std::string_view kind);  // INVALID_ARGUMENT lists them

// Makes one input from each table. INVALID_ARGUMENT: an unknown key (names the nearest) or kind, a value of a wrong
// type or range, or a missing or duplicate name. The message has the input's number.
StatusOr<std::vector<InputSpec>> InputsFromTables(std::span<const InputTable> tables);

// Returns the keys of such a table.
const std::vector<Setting>& InputKeys();

}  // namespace rivulet
