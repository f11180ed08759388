#include "engine/datasets/csv_reader.h"

namespace rivulet {

StatusOr<bool> CsvReader::Next(std::vector<std::string>& cells) {
  if (source_.offset() == 0 && source_.Peek() == 0xEF) {
    for (const int byte : {0xEF, 0xBB, 0xBF})
      if (source_.Next() != byte) return DataLoss("{}: line 1: bytes that are no text", source_.path());
  }
  for (;;) {
    RIVULET_ASSIGN_OR_RETURN(const bool more, Row(cells));
    if (!more || cells.size() > 1 || !cells[0].empty()) return more;
  }
}

StatusOr<bool> CsvReader::Row(std::vector<std::string>& cells) {
  cells.clear();
  row_line_ = line_;
  const int delimiter = static_cast<uint8_t>(delimiter_);
  if (source_.Peek() < 0) {
    RIVULET_RETURN_IF_ERROR(source_.status());
    return false;
  }
  for (;;) {  // a cell
    if (cells.size() == kMaxCells) return DataLoss("{}: more than {} cells in one row", Where(), kMaxCells);
    std::string& cell = cells.emplace_back();
    const bool quoted = source_.Peek() == '"';
    const int64_t quote_line = line_;
    if (quoted) source_.Next();
    for (bool open = quoted;;) {
      const int byte = source_.Next();
      if (byte < 0) {
        RIVULET_RETURN_IF_ERROR(source_.status());
        if (open) return DataLoss("{}: line {}: a quote that is never closed", source_.path(), quote_line);
        return true;
      }
      if (byte == '\n') ++line_;
      if (open) {
        if (byte != '"') {
          cell.push_back(static_cast<char>(byte));
        } else if (source_.Peek() == '"') {
          source_.Next();
          cell.push_back('"');
        } else {
          open = false;
        }
      } else if (byte == delimiter) {
        break;
      } else if (byte == '\n') {
        return true;
      } else if (byte == '\r' && (source_.Peek() == '\n' || source_.Peek() < 0)) {
        continue;
      } else if (byte == 0) {
        return DataLoss("{}: a NUL byte, so this is no text; give a CSV file in UTF-8", Where());
      } else if (quoted) {
        return DataLoss("{}: text follows the closing quote of cell {}; write a quote inside a cell twice", Where(),
                        cells.size());
      } else {
        cell.push_back(static_cast<char>(byte));
      }
      if (cell.size() > kMaxCellBytes)
        return DataLoss("{}: cell {} has more than {} bytes; a quote before it may be missing its end", Where(),
                        cells.size(), kMaxCellBytes);
    }
  }
}

}  // namespace rivulet
