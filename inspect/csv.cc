#include "inspect/csv.h"

#include "engine/base/join.h"

namespace rivulet {

std::string CsvField(const SqlShown& value) {
  struct Writer {
    std::string operator()(std::monostate) const { return ""; }
    std::string operator()(bool v) const { return v ? "1" : "0"; }
    std::string operator()(int64_t v) const { return fmt::format("{}", v); }
    std::string operator()(double v) const { return fmt::format("{}", v); }
    std::string operator()(const std::string& v) const {
      if (v.find_first_of(",\"\r\n") == v.npos) return v;
      std::string quoted = "\"";
      for (const char c : v) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
      return quoted + "\"";
    }
  };
  return std::visit(Writer{}, value);
}

std::string CsvLine(const std::vector<std::string>& fields) { return Join(fields, ",") + "\n"; }

std::string CsvOf(const SqlAnswer& answer) {
  std::string text = CsvLine(answer.columns);
  for (const auto& row : answer.rows) {
    std::vector<std::string> fields;
    for (const SqlShown& value : row) fields.push_back(CsvField(value));
    text += CsvLine(fields);
  }
  return text;
}

}  // namespace rivulet
