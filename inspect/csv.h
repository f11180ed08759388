// Tables as CSV (RFC 4180), a line ending with a line feed.
#pragma once

#include <string>
#include <vector>

#include "coordinator/history/database.h"

namespace rivulet {

std::string CsvField(const SqlShown& value);
std::string CsvLine(const std::vector<std::string>& fields);  // whose fields are CSV already
// A line of columns, then a line a row.
std::string CsvOf(const SqlAnswer& answer);

}  // namespace rivulet
