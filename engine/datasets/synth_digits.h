// Synthetic handwritten digits: 28×28 images drawn from stroke skeletons (engine/datasets/digit_glyphs.h). Each writer
// has an individual slant, size, pen, pressure, unsteadiness, set of glyphs and distribution of digits, so writers are
// natural federated clients. All data is a pure function of (seed, writer's name, example).
//
// Accuracy on unseen writers defines the difficulty. A linear model reaches at most 90 %, a small convolutional network
// at least 97 % (docs/guide/own-data.md has the measurement).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/file_system.h"
#include "engine/base/philox.h"
#include "engine/base/status.h"
#include "engine/data/progress.h"

namespace rivulet {

inline constexpr int kDigitSide = 28;

struct DigitImage {
  std::array<uint8_t, kDigitSide * kDigitSide> pixels{};  // row-major, 255 is full ink
  int label = 0;
};

class DigitWriter {
 public:
  DigitWriter(uint64_t seed, std::string_view name);
  DigitImage Write(uint32_t example) const;

 private:
  static constexpr int kMaxPoints = 24;  // per glyph

  PhiloxKey key_;
  float slant_, rotation_, size_, aspect_, pen_, edge_, ink_, taper_, unsteady_, habit_strength_;
  float offset_x_, offset_y_;
  std::array<float, 10> label_share_{};  // cumulative
  std::array<int, 10> preferred_{};      // variant of each digit
  struct Bend {
    float x, y;
  };
  std::vector<Bend> bends_;  // habitual displacement of each point, for all variants of all digits
  std::array<std::array<int, 4>, 10> first_bend_{};
};

struct SynthDigitsOptions {
  int64_t writers = 100;             // in the training file: "writer-0000" …
  int64_t test_writers = 20;         // in the test file, with subsequent numbers; they are not in training data
  int64_t examples_per_writer = 60;  // in both files
  uint64_t seed = 1;
};

// Writes both files, with a writer's examples together, each with the features image (bytes[784]), label (int64) and
// writer (bytes). Either both are published complete, or neither is changed. With an empty path that file is omitted.
// Progress is counted in writers.
// INVALID_ARGUMENT: a count below 1, or too large for names and random streams. Others are the file system's errors.
Status WriteSynthDigits(FileSystem& fs, const SynthDigitsOptions& options, const std::string& train_path,
                        const std::string& test_path, const DataProgress& progress = {});

}  // namespace rivulet
