// Reader of comma-separated values as in RFC 4180: quoted cells, doubled quotes in them, rows that end with LF or CRLF.
// A byte-order mark is skipped. Separators other than the comma are supported.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/datasets/source_file.h"

namespace rivulet {

// Not thread-safe. Errors have the form "FILE: line N: description", with N counted from 1.
class CsvReader {
 public:
  static constexpr size_t kMaxCellBytes = 1 << 20;
  static constexpr size_t kMaxCells = 1 << 16;

  // `source` must outlive the reader.
  CsvReader(SourceFile& source, char delimiter) : source_(source), delimiter_(delimiter) {}
  // Reads the next row's cells; returns false at the end. Blank lines are skipped. DATA_LOSS: an unclosed quote, or
  // text after a closing quote; a cell or a row above the limits; a NUL; the errors of the source.
  StatusOr<bool> Next(std::vector<std::string>& cells);
  int64_t line() const { return row_line_; }  // first line of the last row
  std::string Where() const { return fmt::format("{}: line {}", source_.path(), row_line_); }

 private:
  StatusOr<bool> Row(std::vector<std::string>& cells);

  SourceFile& source_;
  const char delimiter_;
  int64_t line_ = 1, row_line_ = 0;
};

}  // namespace rivulet
