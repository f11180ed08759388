#include "engine/datasets/table_reader.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "engine/base/nearest.h"
#include "engine/base/utf8.h"
#include "engine/datasets/units.h"

namespace rivulet {
namespace {

// "1234.5" of "1,234.5"; nothing where separators stand elsewhere than between groups of three digits.
std::optional<std::string> Plain(std::string_view cell, NumberFormat format) {
  const size_t whole = std::min(cell.find(format.decimal), cell.size());
  if (format.decimal != '.' && format.thousands != '.' && cell.find('.') != std::string_view::npos) return std::nullopt;
  std::string plain;
  size_t digits = 0;  // since the last separator
  bool grouped = false;
  for (size_t i = 0; i < cell.size(); ++i) {
    const char c = cell[i];
    if (i == whole) {
      plain += '.';
    } else if (format.thousands != '\0' && c == format.thousands) {
      if (i > whole || digits == 0 || digits > 3 || (grouped && digits != 3)) return std::nullopt;
      grouped = true;
      digits = 0;
      continue;
    } else {
      plain += c;
    }
    if (i < whole) digits += c >= '0' && c <= '9';
  }
  if (grouped && digits != 3) return std::nullopt;
  return plain;
}

}  // namespace

std::string_view Trimmed(std::string_view cell) {
  while (!cell.empty() && (cell.front() == ' ' || cell.front() == '\t')) cell.remove_prefix(1);
  while (!cell.empty() && (cell.back() == ' ' || cell.back() == '\t')) cell.remove_suffix(1);
  return cell;
}

std::optional<double> CellNumber(std::string_view cell, NumberFormat format) {
  cell = Trimmed(cell);
  std::optional<std::string> plain;
  if (format.decimal != '.' || format.thousands != '\0') {
    plain = Plain(cell, format);
    if (!plain) return std::nullopt;
    cell = *plain;
  }
  if (cell.starts_with('+')) cell.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (end != cell.data() + cell.size() || cell.empty()) return std::nullopt;
  if (error == std::errc::result_out_of_range) return std::numeric_limits<double>::infinity();
  return value;
}

std::string ShortCell(std::string_view cell) {
  std::string shown;
  for (const char c : cell.substr(0, 40)) shown += static_cast<uint8_t>(c) < 0x20 || c == 0x7f ? ' ' : c;
  return IsUtf8(shown) ? shown + (cell.size() > 40 ? "…" : "") : "bytes that are no UTF-8";
}

StatusOr<std::unique_ptr<TableReader>> TableReader::Open(const std::string& path, const TableOptions& options) {
  std::unique_ptr<TableReader> table(new TableReader);
  RIVULET_ASSIGN_OR_RETURN(table->source_, SourceFile::Open(path));
  table->csv_.emplace(*table->source_, options.delimiter);
  table->missing_ = options.missing;
  table->units_ = options.units;
  table->format_ = {options.decimal, options.thousands};
  RIVULET_ASSIGN_OR_RETURN(const bool any, table->csv_->Next(table->names_));
  if (!any) return DataLoss("{}: it has no rows", path);
  if (!options.header) {
    table->waiting_ = table->names_;
    for (size_t i = 0; i < table->names_.size(); ++i) table->names_[i] = fmt::format("{}", i + 1);
  }
  for (size_t i = 0; i < table->names_.size(); ++i) {
    std::string& name = table->names_[i];
    name = Trimmed(name);
    if (name.empty() || name.size() > kMaxCellValueBytes || !IsUtf8(name))
      return DataLoss(
          "{}: line 1: the name of column {} has {} bytes, or is no UTF-8; give each column a name of 1 "
          "to {} bytes, or say that the file has no header",
          path, i + 1, name.size(), kMaxCellValueBytes);
    if (!table->places_.emplace(name, i).second)
      return DataLoss("{}: line 1: two columns are called '{}'", path, ShortCell(name));
  }
  return table;
}

std::optional<double> TableReader::Number(std::string_view cell) const {
  if (units_.empty()) return CellNumber(cell, format_);
  return CellNumber(WithoutUnit(cell, units_), format_);
}

StatusOr<size_t> TableReader::Find(const std::string& column) const {
  const auto found = places_.find(column);
  if (found != places_.end()) return found->second;
  // There is one column, and its name contains another separator: the delimiter is wrong.
  if (names_.size() == 1 && names_[0].find_first_of(",;|\t") != std::string::npos)
    return InvalidArgument(
        "{} has no column '{}': its first row is one cell, '{}'; give the separator of cells with --delimiter",
        source_->path(), ShortCell(column), ShortCell(names_[0]));
  const std::string nearest = DidYouMean(column, names_);
  return InvalidArgument("{} has no column '{}'.{}", source_->path(), ShortCell(column),
                         nearest.empty() ? " It has " + FirstNames() : nearest);
}

std::string TableReader::FirstNames() const {
  constexpr size_t kMost = 8;
  std::string text;
  for (size_t i = 0; i < std::min(kMost, names_.size()); ++i)
    text += (i == 0 ? "'" : ", '") + ShortCell(names_[i]) + "'";
  return text + (names_.size() > kMost ? fmt::format(" and {} more.", names_.size() - kMost) : ".");
}

StatusOr<bool> TableReader::Next(std::vector<std::string>& cells, const DataProgress& progress) {
  if (progress && ++rows_ % 256 == 0) RIVULET_RETURN_IF_ERROR(progress(source_->position(), source_->file_bytes()));
  if (!waiting_.empty()) {
    cells = std::move(waiting_);
    waiting_.clear();
  } else {
    RIVULET_ASSIGN_OR_RETURN(const bool more, csv_->Next(cells));
    if (!more) return false;
    if (cells.size() != names_.size())
      return DataLoss("{}: {} cells, but the first row has {}; is this the right delimiter, and is every quote closed?",
                      Where(), cells.size(), names_.size());
  }
  if (!missing_.empty()) {
    for (std::string& cell : cells)
      if (std::ranges::find(missing_, Trimmed(cell)) != missing_.end()) cell.clear();
  }
  return true;
}

}  // namespace rivulet
