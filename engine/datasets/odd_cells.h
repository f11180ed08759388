// Non-numeric cells of a column that is otherwise numeric: their texts, their counts and the first line of each.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace rivulet {

// Whether a cell says that its value is missing, as other programs write it: NA, ?, null, -, nan and the like.
bool IsMissingMark(std::string_view cell);
// Whether a cell is a number written in another way than 1234.5, such as $5, 1,000, 3,5, 40%, (3) or <2, or one beyond
// a double.
bool LooksLikeNumber(std::string_view cell);

// Not thread-safe.
class OddCells {
 public:
  void See(const std::string& cell, int64_t line);  // a cell that is neither empty nor a finite number
  int64_t count() const { return count_; }
  // Whether each of these cells says that a value is missing, and the first few of their texts.
  bool AreMarks() const { return marks_ == count_; }
  std::vector<std::string> Texts() const;
  // Whether the column is one of numbers but for these cells: most of its cells with a value are numbers, look like
  // numbers, or are numbers beside one and the same word, such as kg. `numbers` is how many are.
  bool AmongNumbers(int64_t numbers) const;
  // "3 of 720 cells are no numbers: 'NA' (2 cells, first in line 5), …"
  std::string Cells(int64_t cells) const;
  // The same, and which options of the import help.
  std::string Told(std::string_view column, int64_t cells) const;

 private:
  struct Seen {
    int64_t count = 0, line = 0;
  };
  std::string Options(std::string_view column) const;

  int64_t count_ = 0, marks_ = 0, numeric_ = 0;
  std::map<std::string, Seen> texts_;     // the first few different ones
  int64_t others_ = 0;                    // cells whose text is none of these
  std::map<std::string, int64_t> words_;  // cells that are a number beside this word
};

}  // namespace rivulet
