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

// Of "pixels" (bytes), "values" (floats) and "tokens" (integers).
StatusOr<FeatureEncoding> EncodingFromKind(std::string_view kind);  // INVALID_ARGUMENT lists them

// One input for each table. INVALID_ARGUMENT: an unknown key (with the nearest) or kind, a value of a wrong type or
// range, no name, or one that is there twice, each naming the input by number.
StatusOr<std::vector<InputSpec>> InputsFromTables(std::span<const InputTable> tables);

// The keys of such a table.
const std::vector<Setting>& InputKeys();

}  // namespace rivulet
