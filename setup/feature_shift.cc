#include "setup/feature_shift.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "engine/data/example.h"
#include "setup/feature_shifts/shift.h"

namespace rivulet {
namespace {

constexpr uint32_t kNobody = ~uint32_t{0};

int64_t GroupsOf(const ShiftConfig& config, int64_t clients) { return config.groups > 0 ? config.groups : clients; }

StatusOr<Settings> SettingsOf(const FeatureShiftKind& kind, const ShiftConfig& config) {
  RIVULET_ASSIGN_OR_RETURN(const SettingTable* const table, FindSettingTable("feature shift", kind.name));
  return ReadOwn(*table, config.settings, "data.shift");
}

StatusOr<std::unique_ptr<ShiftLaw>> LawOf(const FeatureShift& shift, int64_t groups) {
  const auto& [config, feature, input, seed] = shift;
  RIVULET_ASSIGN_OR_RETURN(const FeatureShiftKind* const kind, FindFeatureShift(config.kind));
  if (input.encoding == FeatureEncoding::kInt64)
    return InvalidArgument("data.shift.kind = \"{}\" is for pixels and floats, and '{}' holds integers", config.kind,
                           feature);
  RIVULET_ASSIGN_OR_RETURN(const Settings settings, SettingsOf(*kind, config));
  return kind->create({settings, groups, feature, input, seed});
}

class ShiftedDataset : public Dataset {
 public:
  ShiftedDataset(std::shared_ptr<const Dataset> data, std::vector<uint32_t> groups, std::unique_ptr<ShiftLaw> law,
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
  const std::unique_ptr<ShiftLaw> law_;
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
  RIVULET_ASSIGN_OR_RETURN(std::unique_ptr<ShiftLaw> law, LawOf(shift, groups));
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

StatusOr<std::string> ShiftText(const ShiftConfig& config, int64_t clients) {
  RIVULET_ASSIGN_OR_RETURN(const FeatureShiftKind* const kind, FindFeatureShift(config.kind));
  RIVULET_ASSIGN_OR_RETURN(const Settings settings, SettingsOf(*kind, config));
  const int64_t groups = GroupsOf(config, clients);
  return fmt::format("{}, {}", kind->text(settings, groups),
                     config.groups > 0 ? fmt::format("in {} groups", groups) : "one a client");
}

}  // namespace rivulet
