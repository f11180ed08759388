#include "setup/feature_shift.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>
#include <utility>
#include <vector>

#include "engine/base/draws.h"
#include "engine/base/trigonometry.h"
#include "engine/data/example.h"
#include "federated/random/streams.h"

namespace rivulet {
namespace {

constexpr uint32_t kNobody = ~uint32_t{0};
constexpr double kFullTurn = 360;

// One of config.kind, for values of one example.
class Law {
 public:
  virtual ~Law() = default;
  virtual void Apply(int64_t group, int64_t example, std::span<float> values) const = 0;
};

struct Image {
  int64_t height = 0, width = 0, channels = 0;
};

// Sine and cosine of whole quarters are exact, so that they only move pixels.
std::pair<double, double> SineAndCosine(double degrees) {
  const double quarters = degrees / 90;
  if (quarters == std::floor(quarters)) {
    static constexpr double kSine[] = {0, 1, 0, -1};
    const auto quarter = static_cast<size_t>(std::fmod(quarters, 4) + 4) % 4;
    return {kSine[quarter], kSine[(quarter + 1) % 4]};
  }
  const double angle = degrees * std::numbers::pi / 180;
  return {math::Sin(angle), math::Cos(angle)};
}

class Rotation : public Law {
 public:
  Rotation(Image image, double degrees, int64_t groups) : image_(image), degrees_(degrees), groups_(groups) {}
  void Apply(int64_t group, int64_t, std::span<float> values) const override {
    const double degrees = degrees_ * static_cast<double>(group) / static_cast<double>(groups_);
    if (std::fmod(degrees, kFullTurn) == 0) return;
    const auto [sine, cosine] = SineAndCosine(degrees);
    const std::vector<float> before(values.begin(), values.end());
    const double middle_y = static_cast<double>(image_.height - 1) / 2,
                 middle_x = static_cast<double>(image_.width - 1) / 2;
    size_t at = 0;
    for (int64_t row = 0; row < image_.height; ++row) {
      for (int64_t column = 0; column < image_.width; ++column) {
        // Rows count downwards, so that turning back clockwise is this.
        const double y = static_cast<double>(row) - middle_y, x = static_cast<double>(column) - middle_x;
        const double from_y = sine * x + cosine * y + middle_y, from_x = cosine * x - sine * y + middle_x;
        for (int64_t channel = 0; channel < image_.channels; ++channel)
          values[at++] = static_cast<float>(Interpolated(before, from_y, from_x, channel));
      }
    }
  }

 private:
  double Interpolated(const std::vector<float>& pixels, double y, double x, int64_t channel) const {
    const double top = std::floor(y), left = std::floor(x);
    double sum = 0;
    for (int down = 0; down < 2; ++down) {
      for (int right = 0; right < 2; ++right) {
        const double share = (down == 1 ? y - top : 1 - (y - top)) * (right == 1 ? x - left : 1 - (x - left));
        const auto row = static_cast<int64_t>(top) + down, column = static_cast<int64_t>(left) + right;
        if (share == 0 || row < 0 || row >= image_.height || column < 0 || column >= image_.width) continue;
        sum += share * pixels[static_cast<size_t>((row * image_.width + column) * image_.channels + channel)];
      }
    }
    return sum;
  }

  const Image image_;
  const double degrees_;
  const int64_t groups_;
};

// Draws of an example, or of a group, that no other shares: partitions draw in round 0.
Draws ShiftDraws(uint64_t seed, int64_t which) {
  return Draws(StreamFor(seed, "", Purpose::kPartition, 1), static_cast<uint32_t>(which));
}

class Noise : public Law {
 public:
  Noise(double variance, int64_t groups, uint64_t seed) : variance_(variance), groups_(groups), seed_(seed) {}
  void Apply(int64_t group, int64_t example, std::span<float> values) const override {
    const double deviation = std::sqrt(variance_ * static_cast<double>(group + 1) / static_cast<double>(groups_));
    Draws draws = ShiftDraws(seed_, example);
    for (float& value : values) value = static_cast<float>(value + deviation * draws.Normal());
  }

 private:
  const double variance_;
  const int64_t groups_;
  const uint64_t seed_;
};

class Brightness : public Law {
 public:
  Brightness(double amount, int64_t groups) : amount_(amount), groups_(groups) {}
  void Apply(int64_t group, int64_t, std::span<float> values) const override {
    if (groups_ == 1) return;
    const double step = amount_ * (2 * static_cast<double>(group) / static_cast<double>(groups_ - 1) - 1);
    for (float& value : values) value = static_cast<float>(value + step);
  }

 private:
  const double amount_;
  const int64_t groups_;
};

class Colour : public Law {
 public:
  Colour(double amount, uint64_t seed) : amount_(amount), seed_(seed) {}
  void Apply(int64_t group, int64_t, std::span<float> values) const override {
    Draws draws = ShiftDraws(seed_, group);
    double share[3];
    for (double& channel : share) channel = 1 - amount_ * draws.Uniform();
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(values[i] * share[i % 3]);
  }

 private:
  const double amount_;
  const uint64_t seed_;
};

int64_t GroupsOf(const ShiftConfig& config, int64_t clients) { return config.groups > 0 ? config.groups : clients; }

StatusOr<std::unique_ptr<Law>> LawOf(const FeatureShift& shift, int64_t groups) {
  const auto& [config, feature, input, seed] = shift;
  const Shape& shape = input.spec.shape;  // batch first
  const bool image = shape.rank() == 4;
  if (input.encoding == FeatureEncoding::kInt64)
    return InvalidArgument("data.shift.kind = \"{}\" is for pixels and floats, and '{}' holds integers", config.kind,
                           feature);
  if (config.kind == "noise") return std::unique_ptr<Law>(new Noise(config.amount, groups, seed));
  if (config.kind == "brightness") return std::unique_ptr<Law>(new Brightness(config.amount, groups));
  if (config.kind == "rotation") {
    if (!image)
      return InvalidArgument("data.shift.kind = \"rotation\" turns images [height, width, channels], and '{}' is {}",
                             feature, shape.ToString());
    const Image size{shape.dim(1), shape.dim(2), shape.dim(3)};
    return std::unique_ptr<Law>(new Rotation(size, config.amount, groups));
  }
  if (config.kind == "colour") {
    if (!image || shape.dim(3) != 3)
      return InvalidArgument("data.shift.kind = \"colour\" is for images of red, green and blue, and '{}' is {}",
                             feature, shape.ToString());
    if (config.amount > 1)
      return InvalidArgument("data.shift.amount is {}, and a colour can lose all of itself, 1, at most", config.amount);
    return std::unique_ptr<Law>(new Colour(config.amount, seed));
  }
  return InvalidArgument("there is no data.shift.kind '{}'; kinds are rotation, noise, brightness, colour",
                         config.kind);
}

class ShiftedDataset : public Dataset {
 public:
  ShiftedDataset(std::shared_ptr<const Dataset> data, std::vector<uint32_t> groups, std::unique_ptr<Law> law,
                 std::string feature, bool bytes, size_t values)
      : data_(std::move(data)),
        groups_(std::move(groups)),
        law_(std::move(law)),
        feature_(std::move(feature)),
        bytes_(bytes),
        values_(values) {}
  int64_t size() const override { return data_->size(); }
  std::string Where(int64_t index) const override { return data_->Where(index); }

  Status Read(int64_t index, std::string& buffer) const override {
    RIVULET_RETURN_IF_ERROR(data_->Read(index, buffer));
    const uint32_t group = groups_[static_cast<size_t>(index)];
    if (group == kNobody) return absl::OkStatus();
    StatusOr<std::string> shifted = Shifted(buffer, group, index);
    if (!shifted.ok()) return Annotate(shifted.status(), Where(index));
    buffer = *std::move(shifted);
    return absl::OkStatus();
  }

 private:
  StatusOr<std::string> Shifted(std::string_view record, int64_t group, int64_t index) const {
    std::vector<float> values(values_);
    RIVULET_RETURN_IF_ERROR(ReadValues(record, values));
    law_->Apply(group, index, values);
    RIVULET_ASSIGN_OR_RETURN(const auto features, ParseExample(record));
    ExampleBuilder example;
    for (const auto& [name, feature] : features)
      if (name != feature_) example.Copy(name, feature);
    if (!bytes_) {
      example.Floats(feature_, values);
      return example.Serialize();
    }
    std::string pixels;
    pixels.reserve(values.size());
    for (const float value : values) pixels += static_cast<char>(std::lround(std::clamp(value, 0.0F, 1.0F) * 255));
    return example.Bytes(feature_, pixels).Serialize();
  }

  Status ReadValues(std::string_view record, std::span<float> values) const {
    if (!bytes_) return FindFloatFeature(record, feature_, values);
    std::string_view pixels;
    RIVULET_RETURN_IF_ERROR(FindBytesFeature(record, feature_, &pixels));
    if (pixels.size() != values.size())
      return InvalidArgument("feature '{}' has {} bytes, and an image of the model has {}", feature_, pixels.size(),
                             values.size());
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(static_cast<uint8_t>(pixels[i])) / 255;
    return absl::OkStatus();
  }

  const std::shared_ptr<const Dataset> data_;
  const std::vector<uint32_t> groups_;  // by example
  const std::unique_ptr<Law> law_;
  const std::string feature_;
  const bool bytes_;
  const size_t values_;  // of one example
};

}  // namespace

StatusOr<std::shared_ptr<const Dataset>> ShiftFeatures(std::shared_ptr<const Dataset> data, const Shares& shares,
                                                       const FeatureShift& shift) {
  const ShiftConfig& config = shift.config;
  const int64_t groups = GroupsOf(config, shares.size());
  if (groups > shares.size())
    return InvalidArgument("data.shift.groups is {}, and there are {} clients; give no more groups than clients",
                           groups, shares.size());
  if (!(config.amount >= 0 && std::isfinite(config.amount)))
    return InvalidArgument("data.shift.amount is {}; give 0 or more", config.amount);
  RIVULET_ASSIGN_OR_RETURN(std::unique_ptr<Law> law, LawOf(shift, groups));
  std::vector<uint32_t> group_of(static_cast<size_t>(data->size()), kNobody);
  for (int64_t client = 0; client < shares.size(); ++client)
    for (const uint32_t example : shares.ExamplesOf(client)) group_of[example] = static_cast<uint32_t>(client % groups);
  const Shape& batched = shift.input.spec.shape;
  const Shape example(std::vector<int64_t>(batched.dims().begin() + 1, batched.dims().end()));
  RIVULET_ASSIGN_OR_RETURN(const int64_t values, example.CheckedElements());
  const bool bytes = shift.input.encoding == FeatureEncoding::kUint8;
  return std::shared_ptr<const Dataset>(std::make_shared<ShiftedDataset>(
      std::move(data), std::move(group_of), std::move(law), shift.feature, bytes, static_cast<size_t>(values)));
}

std::string ShiftText(const ShiftConfig& config, int64_t clients) {
  const int64_t groups = GroupsOf(config, clients);
  const auto n = static_cast<double>(groups);
  const std::string in = config.groups > 0 ? fmt::format("in {} groups", groups) : "one a client";
  if (config.kind == "rotation")
    return fmt::format("rotation by 0 to {:.4g} degrees, {}", config.amount * (n - 1) / n, in);
  if (config.kind == "noise")
    return fmt::format("noise of variance {:.4g} to {:.4g}, {}", config.amount / n, config.amount, in);
  if (config.kind == "brightness")
    return fmt::format("brightness {:+.4g} to {:+.4g}, {}", -config.amount, config.amount, in);
  return fmt::format("colour, up to {:.4g} of a channel less, {}", config.amount, in);
}

}  // namespace rivulet
