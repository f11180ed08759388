#include "certificates/index.h"

#include <ctime>

namespace rivulet {
namespace {

constexpr std::string_view kHeader = "rivulet-certificates 1";

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

StatusOr<int64_t> ParseTime(std::string_view text) {
  std::tm parts{};
  const std::string copy(text);
  const char* end = strptime(copy.c_str(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  if (end == nullptr || *end != '\0') return InvalidArgument("'{}' is not a time", copy);
  const int64_t seconds = timegm(&parts);
  // strptime accepts "2026-2-31" too.
  if (TimeText(seconds) != text) return InvalidArgument("'{}' is no time in the format of this file", copy);
  return seconds;
}

StatusOr<IndexRow> ParseRow(std::string_view line) {
  const std::vector<std::string_view> fields = Split(line, ' ');
  if (fields.size() != 6 && fields.size() != 9) return InvalidArgument("it has {} fields, not 6 or 9", fields.size());
  IndexRow row{.serial = std::string(fields[0]), .public_key = std::string(fields[5])};
  RIVULET_RETURN_IF_ERROR(SerialOf(row.serial).status());
  RIVULET_ASSIGN_OR_RETURN(row.subject.name, NameOfUri(fields[1]));
  if (fields[2] != "-")
    for (const std::string_view host : Split(fields[2], ',')) row.subject.hosts.emplace_back(host);
  RIVULET_RETURN_IF_ERROR(CheckSubject(row.subject));
  RIVULET_ASSIGN_OR_RETURN(row.validity.from, ParseTime(fields[3]));
  RIVULET_ASSIGN_OR_RETURN(row.validity.until, ParseTime(fields[4]));
  if (fields.size() == 6) return row;
  if (fields[6] != "revoked") return InvalidArgument("'{}' is in the place of 'revoked'", fields[6]);
  row.revocation.emplace();
  RIVULET_ASSIGN_OR_RETURN(row.revocation->at, ParseTime(fields[7]));
  RIVULET_ASSIGN_OR_RETURN(row.revocation->reason, ParseReason(fields[8]));
  return row;
}

}  // namespace

std::string_view IndexRow::State(int64_t now) const {
  if (revocation) return "revoked";
  return Active(now) ? "valid" : "expired";
}

std::string IndexText(const std::vector<IndexRow>& rows) {
  std::string text(kHeader);
  text += '\n';
  for (const IndexRow& row : rows) {
    std::string hosts;
    for (const std::string& host : row.subject.hosts) hosts += (hosts.empty() ? "" : ",") + host;
    text += fmt::format("{} {} {} {} {} {}", row.serial, row.subject.name.Uri(), hosts.empty() ? "-" : hosts,
                        TimeText(row.validity.from), TimeText(row.validity.until), row.public_key);
    if (row.revocation)
      text += fmt::format(" revoked {} {}", TimeText(row.revocation->at), ReasonText(row.revocation->reason));
    text += '\n';
  }
  return text;
}

StatusOr<std::vector<IndexRow>> ParseIndex(std::string_view text, std::string_view where) {
  const std::vector<std::string_view> lines = Split(text, '\n');
  if (lines.front() != kHeader || !lines.back().empty()) {
    return DataLoss("'{}' is no complete index of certificates; restore it from a backup", where);
  }
  std::vector<IndexRow> rows;
  for (size_t i = 1; i + 1 < lines.size(); ++i) {
    StatusOr<IndexRow> row = ParseRow(lines[i]);
    if (!row.ok()) {
      return DataLoss("line {} of '{}' was changed: {}; restore the file from a backup", i + 1, where,
                      Message(row.status()));
    }
    rows.push_back(*std::move(row));
  }
  return rows;
}

}  // namespace rivulet
