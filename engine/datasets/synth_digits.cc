// Compiled with -ffp-contract=off and free of libm, so that unlike machines draw the same pixels.
#include "engine/datasets/synth_digits.h"

#include <algorithm>
#include <cmath>

#include "engine/base/sha256.h"
#include "engine/data/example.h"
#include "engine/data/tfrecord.h"
#include "engine/datasets/digit_glyphs.h"

namespace rivulet {
namespace {

constexpr uint8_t kPurposeSynthesize = 6;  // federated/random/streams.h
constexpr uint32_t kStyleOp = 0;           // example i draws from operation i + 1

class Pencil {  // sequential draws
 public:
  Pencil(PhiloxKey key, uint32_t op) : stream_{key, 0, 0, kPurposeSynthesize}, op_(op) {}
  float Uniform() {
    if (used_ == 4) {
      block_ = stream_.Block(index_++, op_);
      used_ = 0;
    }
    return UniformFloat(block_[used_++]);
  }
  float Between(float low, float high) { return low + (high - low) * Uniform(); }
  // Nearly normal, within 3.5 deviations: four uniforms, without a logarithm.
  float Normal() { return (Uniform() + Uniform() + Uniform() + Uniform() - 2.0f) * 1.7320508f; }

 private:
  StreamKey stream_;
  uint32_t op_;
  uint64_t index_ = 0;
  PhiloxBlock block_{};
  size_t used_ = 4;
};

// For angles within ±1 radian.
float Sine(float a) {
  const float q = a * a;
  return a * (1.0f - q * (1.0f / 6.0f - q * (1.0f / 120.0f - q * (1.0f / 5040.0f))));
}
float Cosine(float a) {
  const float q = a * a;
  return 1.0f - q * (0.5f - q * (1.0f / 24.0f - q * (1.0f / 720.0f - q * (1.0f / 40320.0f))));
}

// Ink as the distance to the nearest pen mark: `field` holds distance minus pen radius, in pixels.
class Paper {
 public:
  Paper() { field_.fill(1e9f); }

  // The pen moves from a to b; its radius changes from ra to rb. `reach`: how far beyond the radius ink can be seen.
  void Line(GlyphPoint a, GlyphPoint b, float ra, float rb, float reach) {
    const float far = std::max(ra, rb) + reach;
    const int x0 = Clamp(std::min(a.x, b.x) - far), x1 = Clamp(std::max(a.x, b.x) + far + 1.0f);
    const int y0 = Clamp(std::min(a.y, b.y) - far), y1 = Clamp(std::max(a.y, b.y) + far + 1.0f);
    const float dx = b.x - a.x, dy = b.y - a.y;
    const float length2 = dx * dx + dy * dy;
    const float inverse = length2 > 1e-12f ? 1.0f / length2 : 0.0f;
    for (int y = y0; y < y1; ++y) {
      float* const row = field_.data() + y * kDigitSide;
      const float py = static_cast<float>(y) - a.y;
      for (int x = x0; x < x1; ++x) {
        const float px = static_cast<float>(x) - a.x;
        const float t = std::min(std::max((px * dx + py * dy) * inverse, 0.0f), 1.0f);
        const float ex = px - t * dx, ey = py - t * dy;
        const float distance = std::sqrt(ex * ex + ey * ey) - (ra + t * (rb - ra));
        row[x] = std::min(row[x], distance);
      }
    }
  }

  void Develop(float ink, float edge, std::array<uint8_t, kDigitSide * kDigitSide>& pixels) const {
    for (size_t i = 0; i < field_.size(); ++i) {
      const float t = std::min(std::max(0.5f - field_[i] / edge, 0.0f), 1.0f);
      const float coverage = t * t * (3.0f - 2.0f * t);
      pixels[i] = static_cast<uint8_t>(255.0f * ink * coverage + 0.5f);
    }
  }

 private:
  static int Clamp(float v) { return static_cast<int>(std::min(std::max(v, 0.0f), static_cast<float>(kDigitSide))); }
  std::array<float, kDigitSide * kDigitSide> field_;
};

// Between p1 and p2 on the Catmull–Rom curve through p0 … p3.
GlyphPoint OnCurve(GlyphPoint p0, GlyphPoint p1, GlyphPoint p2, GlyphPoint p3, float t) {
  const float t2 = t * t, t3 = t2 * t;
  const float w0 = -0.5f * t3 + t2 - 0.5f * t, w1 = 1.5f * t3 - 2.5f * t2 + 1.0f;
  const float w2 = -1.5f * t3 + 2.0f * t2 + 0.5f * t, w3 = 0.5f * t3 - 0.5f * t2;
  return {w0 * p0.x + w1 * p1.x + w2 * p2.x + w3 * p3.x, w0 * p0.y + w1 * p1.y + w2 * p2.y + w3 * p3.y};
}

bool SamePoint(GlyphPoint a, GlyphPoint b) { return a.x == b.x && a.y == b.y; }

}  // namespace

DigitWriter::DigitWriter(uint64_t seed, std::string_view name) {
  const Digest digest = std::move(Sha256().UpdateU64(seed).Update(name)).Finish();
  for (size_t word = 0; word < 2; ++word) {
    for (size_t i = 0; i < 4; ++i) key_.words[word] |= uint32_t{digest.bytes[4 * word + i]} << (8 * i);
  }
  Pencil draw(key_, kStyleOp);
  slant_ = std::min(std::max(0.12f + 0.24f * draw.Normal(), -0.5f), 0.75f);
  rotation_ = 0.13f * draw.Normal();
  size_ = draw.Between(16.0f, 21.5f);
  aspect_ = draw.Between(0.72f, 1.2f);
  pen_ = draw.Between(0.75f, 1.75f);
  edge_ = draw.Between(0.9f, 1.8f);
  ink_ = draw.Between(0.75f, 1.0f);
  taper_ = draw.Between(0.0f, 0.5f);
  unsteady_ = draw.Between(0.010f, 0.027f);
  habit_strength_ = draw.Between(0.8f, 0.97f);
  offset_x_ = 0.9f * draw.Normal();
  offset_y_ = 0.9f * draw.Normal();
  float total = 0;
  for (float& share : label_share_) {
    total += draw.Between(0.4f, 1.6f);
    share = total;
  }
  for (float& share : label_share_) share /= total;
  for (int digit = 0; digit < 10; ++digit) {
    const auto variants = VariantsOfDigit(digit);
    float at = draw.Uniform();
    int chosen = 0;
    while (chosen + 1 < static_cast<int>(variants.size()) && at >= variants[static_cast<size_t>(chosen)].share) {
      at -= variants[static_cast<size_t>(chosen)].share;
      ++chosen;
    }
    preferred_[static_cast<size_t>(digit)] = chosen;
    for (size_t v = 0; v < variants.size(); ++v) {
      first_bend_[static_cast<size_t>(digit)][v] = static_cast<int>(bends_.size());
      for (const GlyphStroke& stroke : variants[v].strokes) {
        for (size_t p = 0; p < stroke.points.size(); ++p)
          bends_.push_back({0.027f * draw.Normal(), 0.023f * draw.Normal()});
      }
    }
  }
}

DigitImage DigitWriter::Write(uint32_t example) const {
  Pencil draw(key_, example + 1);
  DigitImage image;
  const float which = draw.Uniform();
  while (image.label < 9 && which >= label_share_[static_cast<size_t>(image.label)]) ++image.label;
  const auto digit = static_cast<size_t>(image.label);
  const auto variants = VariantsOfDigit(image.label);
  auto variant = static_cast<size_t>(preferred_[digit]);
  if (draw.Uniform() > habit_strength_) {
    variant = std::min(static_cast<size_t>(draw.Uniform() * static_cast<float>(variants.size())), variants.size() - 1);
  }

  // From the glyph's box to pixels: proportions, slant, rotation.
  const float height = size_ * (1.0f + 0.06f * draw.Normal());
  const float width = height * 0.86f * aspect_ * (1.0f + 0.07f * draw.Normal());
  const float slant = slant_ + 0.07f * draw.Normal();
  const float angle = rotation_ + 0.06f * draw.Normal();
  const float sine = Sine(angle), cosine = Cosine(angle);
  const float pen = pen_ * (1.0f + 0.08f * draw.Normal());
  GlyphPoint center = {offset_x_ + 1.4f * draw.Normal(), offset_y_ + 1.4f * draw.Normal()};

  std::array<GlyphPoint, kMaxPoints> placed;
  size_t used = 0;
  GlyphPoint least = {1e9f, 1e9f}, most = {-1e9f, -1e9f};
  const auto first_bend = static_cast<size_t>(first_bend_[digit][variant]);
  for (const GlyphStroke& stroke : variants[variant].strokes) {
    for (const GlyphPoint& point : stroke.points) {
      const Bend& bend = bends_[first_bend + used];
      const float y = (point.y + bend.y + unsteady_ * draw.Normal() - 0.5f) * height;
      const float x = (point.x + bend.x + unsteady_ * draw.Normal() - 0.5f) * width - slant * y;
      const GlyphPoint turned = {cosine * x - sine * y, sine * x + cosine * y};
      placed[used++] = turned;
      least = {std::min(least.x, turned.x), std::min(least.y, turned.y)};
      most = {std::max(most.x, turned.x), std::max(most.y, turned.y)};
    }
  }
  // Nobody writes beyond the paper: what is too large is written smaller, what would leave is moved back.
  const float room = static_cast<float>(kDigitSide) - 1.0f - 2.0f * pen;
  const float extent = std::max(most.x - least.x, most.y - least.y);
  const float scale = extent > room ? room / extent : 1.0f;
  const auto inside = [&](float at, float low, float high) {
    return std::min(std::max(at, -0.5f * room - scale * low), 0.5f * room - scale * high);
  };
  constexpr float kMiddle = 0.5f * static_cast<float>(kDigitSide - 1);
  center = {kMiddle + inside(center.x, least.x, most.x), kMiddle + inside(center.y, least.y, most.y)};
  for (size_t i = 0; i < used; ++i) placed[i] = {center.x + scale * placed[i].x, center.y + scale * placed[i].y};

  Paper paper;
  size_t next = 0;
  for (const GlyphStroke& stroke : variants[variant].strokes) {
    const size_t count = stroke.points.size();
    const GlyphPoint* const points = placed.data() + next;
    next += count;
    const bool closed = SamePoint(stroke.points.front(), stroke.points.back());
    const int steps = stroke.smooth ? 5 : 1;
    const auto radius = [&](float along) {  // thinner towards the end of a stroke
      return pen * (1.0f - taper_ * along * along);
    };
    const float pieces = static_cast<float>(count - 1);
    for (size_t i = 0; i + 1 < count; ++i) {
      const GlyphPoint before = i > 0 ? points[i - 1] : closed ? points[count - 2] : points[0];
      const GlyphPoint after = i + 2 < count ? points[i + 2] : closed ? points[1] : points[count - 1];
      GlyphPoint from = points[i];
      for (int step = 1; step <= steps; ++step) {
        const float t = static_cast<float>(step) / static_cast<float>(steps);
        const float t_from = static_cast<float>(step - 1) / static_cast<float>(steps);
        const GlyphPoint to = stroke.smooth ? OnCurve(before, points[i], points[i + 1], after, t) : points[i + 1];
        const float begin = (static_cast<float>(i) + t_from) / pieces, end = (static_cast<float>(i) + t) / pieces;
        paper.Line(from, to, radius(begin), radius(end), 0.5f * edge_);
        from = to;
      }
    }
  }
  paper.Develop(ink_, edge_, image.pixels);
  return image;
}

namespace {

std::string WriterName(int64_t writer) { return fmt::format("writer-{:04}", writer); }

Status WriteWriters(const SynthDigitsOptions& options, int64_t first, int64_t count, const DataProgress& progress,
                    RecordWriter& file) {
  for (int64_t i = first; i < first + count; ++i) {
    if (progress) RIVULET_RETURN_IF_ERROR(progress(i, options.writers + options.test_writers));
    const std::string name = WriterName(i);
    const DigitWriter writer(options.seed, name);
    for (int64_t example = 0; example < options.examples_per_writer; ++example) {
      const DigitImage image = writer.Write(static_cast<uint32_t>(example));
      const std::string_view pixels(reinterpret_cast<const char*>(image.pixels.data()), image.pixels.size());
      RIVULET_RETURN_IF_ERROR(file.Append(
          ExampleBuilder().Bytes("image", pixels).Int64("label", image.label).Bytes("writer", name).Serialize()));
    }
  }
  return file.Finish();
}

}  // namespace

Status WriteSynthDigits(FileSystem& fs, const SynthDigitsOptions& options, const std::string& train_path,
                        const std::string& test_path, const DataProgress& progress) {
  // Examples count in 24 bits of the random stream's operation.
  constexpr int64_t kMaxExamples = (1 << 24) - 2, kMaxWriters = 10'000'000;
  if (options.writers < 1 || options.writers > kMaxWriters)
    return InvalidArgument("{} writers; give 1 to {}", options.writers, kMaxWriters);
  if (options.test_writers < (test_path.empty() ? 0 : 1) || options.test_writers > kMaxWriters)
    return InvalidArgument("{} test writers; give 1 to {}", options.test_writers, kMaxWriters);
  if (options.examples_per_writer < 1 || options.examples_per_writer > kMaxExamples)
    return InvalidArgument("{} examples per writer; give 1 to {}", options.examples_per_writer, kMaxExamples);
  std::unique_ptr<RecordWriter> train, test;
  if (!train_path.empty()) {
    RIVULET_ASSIGN_OR_RETURN(train, RecordWriter::Create(fs, train_path));
    RIVULET_RETURN_IF_ERROR(WriteWriters(options, 0, options.writers, progress, *train));
  }
  if (!test_path.empty()) {
    RIVULET_ASSIGN_OR_RETURN(test, RecordWriter::Create(fs, test_path));
    RIVULET_RETURN_IF_ERROR(WriteWriters(options, options.writers, options.test_writers, progress, *test));
  }
  // The training file last: who finds it may expect the other.
  if (test != nullptr) RIVULET_RETURN_IF_ERROR(test->Publish());
  return train != nullptr ? train->Publish() : absl::OkStatus();
}

}  // namespace rivulet
