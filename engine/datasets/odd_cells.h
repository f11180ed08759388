// Non-numeric cells of a column that is otherwise numeric: their texts, their counts and the first line of each.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace rivulet {

// Returns true if the cell is a common mark for a missing value: NA, ?, null, -, nan and others.
bool IsMissingMark(std::string_view cell);
// Returns true if the cell is a number in a format other than 1234.5, such as $5, 1,000, 3,5, 40%, (3) or <2, or a
// number beyond the range of a double.
bool LooksLikeNumber(std::string_view cell);

// The odd cells of one column. Not thread-safe.
class OddCells {
 public:
  void See(const std::string& cell, int64_t line);  // adds a cell that is neither empty nor a finite number
  int64_t count() const { return count_; }
  // Returns true if all of these cells are marks for missing values. The next function returns the first few texts.
  bool AreMarks() const { return marks_ == count_; }
  std::vector<std::string> Texts() const;
  // Returns true if the column is numeric except for these cells: most of its nonempty cells are numbers, look like
  // numbers, or are numbers beside the same word, such as kg. `numbers` is the number of numeric cells.
  bool AmongNumbers(int64_t numbers) const;
  // For example "3 of 720 cells are no numbers: 'NA' (2 cells, first in line 5), …".
  std::string Cells(int64_t cells) const;
  // The same, followed by the import options that help.
  std::string Told(std::string_view column, int64_t cells) const;

 private:
  struct Seen {
    int64_t count = 0, line = 0;
  };
  std::string Options(std::string_view column) const;

  int64_t count_ = 0, marks_ = 0, numeric_ = 0;
  std::map<std::string, Seen> texts_;     // the first few different texts
  int64_t others_ = 0;                    // cells with other texts
  std::map<std::string, int64_t> words_;  // per word: cells with a number beside it
};

}  // namespace rivulet
