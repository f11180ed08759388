// Tables as CSV (RFC 4180), with a line feed at the end of each line.
#pragma once

#include <string>
#include <vector>

#include "coordinator/history/database.h"

namespace rivulet {

std::string CsvField(const SqlShown& value);
std::string CsvLine(const std::vector<std::string>& fields);  // the fields are CSV already
// The columns as the first line, then a line per row.
std::string CsvOf(const SqlAnswer& answer);

}  // namespace rivulet
