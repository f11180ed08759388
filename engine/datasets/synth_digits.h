// Synthetic handwritten digits: 28×28 images drawn from stroke skeletons (engine/datasets/digit_glyphs.h). Each writer
// has an individual slant, size, pen, pressure, unsteadiness, set of glyphs and distribution of digits, so writers are
// natural federated clients. Everything is a pure function of (seed, writer's name, example).
//
// The difficulty is fixed by two models on writers not seen in training. A linear model reaches at most 90 %, a small
// convolutional network at least 97 % (docs/guide/own-data.md has the measurement).
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
  static constexpr int kMaxPoints = 24;  // of one glyph

  PhiloxKey key_;
  float slant_, rotation_, size_, aspect_, pen_, edge_, ink_, taper_, unsteady_, habit_strength_;
  float offset_x_, offset_y_;
  std::array<float, 10> label_share_{};  // cumulative
  std::array<int, 10> preferred_{};      // variant of each digit
  struct Bend {
    float x, y;
  };
  std::vector<Bend> bends_;  // habitual displacement of each point of each variant of each digit
  std::array<std::array<int, 4>, 10> first_bend_{};
};

struct SynthDigitsOptions {
  int64_t writers = 100;             // of the training file: "writer-0000" …
  int64_t test_writers = 20;         // of the test file, numbered after them, never seen in training
  int64_t examples_per_writer = 60;  // in both files
  uint64_t seed = 1;
};

// Writes both files, examples of a writer together, each with the features image (bytes[784]), label (int64) and writer
// (bytes). Both are complete under their names, or neither is changed. An empty path
// leaves that file out. Progress is told in writers.
// INVALID_ARGUMENT: a count below 1 or beyond what names and streams can number. Otherwise the file system's errors.
Status WriteSynthDigits(FileSystem& fs, const SynthDigitsOptions& options, const std::string& train_path,
                        const std::string& test_path, const DataProgress& progress = {});

}  // namespace rivulet
