#include "engine/data/inspect.h"

#include <algorithm>
#include <set>

#include "engine/base/json.h"
#include "engine/base/numbered_names.h"
#include "engine/data/tfrecord.h"

namespace rivulet {
namespace {

constexpr size_t kMaxLabels = 1000;

// Values of one int64 feature that may be the label.
struct LabelCandidate {
  std::map<int64_t, int64_t> counts;
  int64_t examples = 0;
  bool possible = true;   // exactly one int64 value in each example that has it
  bool too_many = false;  // more than kMaxLabels different values
};

void AddFeature(const FeatureView& view, FeatureSummary& summary) {
  if (view.kind() != FeatureKind::kNone) {
    if (summary.kind == FeatureKind::kNone) summary.kind = view.kind();
    if (view.kind() != summary.kind) summary.mixed = true;
  }
  const int64_t count = view.count();
  summary.min_count = summary.examples == 0 ? count : std::min(summary.min_count, count);
  summary.max_count = std::max(summary.max_count, count);
  if (view.kind() == FeatureKind::kBytes) {
    view.ForEachBytes([&](std::string_view value) {
      const auto bytes = static_cast<int64_t>(value.size());
      summary.min_bytes = summary.min_bytes < 0 ? bytes : std::min(summary.min_bytes, bytes);
      summary.max_bytes = std::max(summary.max_bytes, bytes);
    });
  }
  ++summary.examples;
}

void AddLabel(const FeatureView& view, bool wanted, LabelCandidate& candidate) {
  ++candidate.examples;
  if (view.kind() != FeatureKind::kInt64 || view.count() != 1) candidate.possible = false;
  if (!candidate.possible || (candidate.too_many && !wanted)) return;
  ++candidate.counts[view.FirstInt64()];
  candidate.too_many = candidate.counts.size() > kMaxLabels;
}

// "784" → "[784]"; unknown sizes are "?".
std::string ShapeText(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i > 0 ? "," : "") + (shape[i] < 0 ? std::string("?") : fmt::format("{}", shape[i]));
  return text + "]";
}

std::string Grouped(int64_t number) {  // 60,000
  std::string digits = fmt::format("{}", number);
  for (auto at = static_cast<int64_t>(digits.size()) - 3; at > (number < 0 ? 1 : 0); at -= 3)
    digits.insert(static_cast<size_t>(at), 1, ',');
  return digits;
}

std::string PrintableKey(std::string_view name) {
  std::string text;
  for (const char c : name) text += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  return text;
}

Status Tell(const RecordReader& reader, const DataProgress& progress) {
  if (!progress || reader.record() % 256 != 0) return absl::OkStatus();
  return progress(static_cast<int64_t>(reader.file_position()), static_cast<int64_t>(reader.file_bytes()));
}

std::string_view TypeName(const FeatureSummary& feature) { return feature.mixed ? "mixed" : Name(feature.kind); }

}  // namespace

std::vector<int64_t> FeatureSummary::Shape() const {
  const auto fixed = [](int64_t low, int64_t high) { return low == high ? low : int64_t{-1}; };
  const int64_t count = fixed(min_count, max_count);
  std::vector<int64_t> shape;
  if (count != 1) shape.push_back(count);
  if (kind == FeatureKind::kBytes) shape.push_back(fixed(min_bytes, max_bytes));
  return shape;
}

StatusOr<FileSummary> InspectRecords(const std::string& path, const std::string& label_feature,
                                     const DataProgress& progress) {
  RIVULET_ASSIGN_OR_RETURN(const auto reader, RecordReader::Open(path));
  FileSummary summary;
  summary.path = path;
  summary.compression = reader->compression();
  summary.bytes = static_cast<int64_t>(reader->file_bytes());
  std::map<std::string, LabelCandidate, std::less<>> candidates;
  std::string record;
  for (;;) {
    RIVULET_ASSIGN_OR_RETURN(const bool more, reader->Next(record));
    if (!more) break;
    ++summary.records;
    RIVULET_RETURN_IF_ERROR(Tell(*reader, progress));
    switch (ClassifyPayload(record)) {
      case PayloadKind::kExample: {
        ++summary.examples;
        RIVULET_ASSIGN_OR_RETURN(const auto features, ParseExample(record));
        for (const auto& [name, view] : features) {
          AddFeature(view, summary.features[std::string(name)]);
          if (view.kind() == FeatureKind::kInt64 || candidates.contains(name))
            AddLabel(view, name == label_feature, candidates[std::string(name)]);
        }
        break;
      }
      case PayloadKind::kSequenceExample: {
        ++summary.sequence_examples;
        const auto context = ParseExample(record);  // the context has the place of an Example's features
        if (context.ok()) {
          for (const auto& [name, view] : *context) AddFeature(view, summary.features[std::string(name)]);
        }
        break;
      }
      case PayloadKind::kOther:
        ++summary.others;
        break;
    }
  }
  summary.unpacked_bytes = static_cast<int64_t>(reader->stream_bytes());

  const auto qualifies = [&](const std::string& name) {
    const auto found = candidates.find(name);
    return found != candidates.end() && found->second.possible && found->second.examples == summary.examples &&
           summary.features[name].examples == summary.examples;
  };
  if (!label_feature.empty()) {
    if (!summary.features.contains(label_feature))
      return InvalidArgument("{}: no example has a feature '{}'", path, PrintableKey(label_feature));
    if (!qualifies(label_feature))
      return InvalidArgument("{}: feature '{}' does not have one int64 value in each example", path,
                             PrintableKey(label_feature));
    summary.label_feature = label_feature;
  } else if (qualifies("label") && !candidates["label"].too_many) {
    summary.label_feature = "label";
  } else {
    std::vector<std::string> possible;
    for (const auto& [name, candidate] : candidates) {
      if (qualifies(name) && !candidate.too_many) possible.push_back(name);
    }
    if (possible.size() == 1) summary.label_feature = possible[0];
  }
  if (!summary.label_feature.empty()) summary.labels = std::move(candidates[summary.label_feature].counts);
  return summary;
}

std::string ToText(const FileSummary& summary) {
  std::string text = fmt::format("{}\n", summary.path);
  text += fmt::format("  examples  {}\n", Grouped(summary.examples));
  if (summary.sequence_examples > 0)
    text += fmt::format("  records of tf.train.SequenceExample  {}\n", Grouped(summary.sequence_examples));
  if (summary.others > 0) text += fmt::format("  records that are no tf.train.Example  {}\n", Grouped(summary.others));
  text += fmt::format("  bytes     {}", Grouped(summary.bytes));
  if (summary.compression != Compression::kNone)
    text += fmt::format(" ({}; {} unpacked)", Name(summary.compression), Grouped(summary.unpacked_bytes));
  text += '\n';
  if (!summary.features.empty()) {
    text += summary.examples > 0 ? "  features\n" : "  features of the context\n";
    size_t width = 0;
    for (const auto& [name, feature] : summary.features) width = std::max(width, PrintableKey(name).size());
    for (const auto& [name, feature] : summary.features) {
      const auto shape = feature.Shape();
      text += fmt::format("    {:<{}}  {}{}", PrintableKey(name), width, TypeName(feature),
                          shape.empty() ? "" : ShapeText(shape));
      const int64_t all = summary.examples + summary.sequence_examples;
      if (feature.examples != all) text += fmt::format("  in {} of {}", Grouped(feature.examples), Grouped(all));
      text += '\n';
    }
  }
  if (!summary.labels.empty()) {
    text += fmt::format("  labels ({})\n", PrintableKey(summary.label_feature));
    int64_t most = 1;
    for (const auto& [label, count] : summary.labels) most = std::max(most, count);
    constexpr int64_t kBar = 40;
    const size_t width = WidthOfNames(summary.label_names, 4);
    for (const auto& [label, count] : summary.labels) {
      const std::string bar(static_cast<size_t>(std::max<int64_t>(count * kBar / most, 1)), '#');
      text +=
          fmt::format("    {:>{}}  {:>9}  {}\n", NameOrNumber(summary.label_names, label), width, Grouped(count), bar);
    }
  }
  return text;
}

std::string ToJson(const FileSummary& summary) {
  Json json;
  json["file"] = summary.path;
  json["records"] = summary.records;
  json["examples"] = summary.examples;
  json["sequence_examples"] = summary.sequence_examples;
  json["other_records"] = summary.others;
  json["features"] = Json::Object();
  for (const auto& [name, feature] : summary.features) {
    Json& entry = json["features"][name];
    entry["dtype"] = std::string(TypeName(feature));
    entry["shape"] = feature.Shape();
    entry["examples"] = feature.examples;
  }
  json["label_feature"] = summary.label_feature.empty() ? Json(nullptr) : Json(summary.label_feature);
  json["labels"] = Json::Object();
  for (const auto& [label, count] : summary.labels) json["labels"][fmt::format("{}", label)] = count;
  if (!summary.label_names.empty()) json["label_names"] = summary.label_names;
  json["bytes"] = summary.bytes;
  json["unpacked_bytes"] = summary.unpacked_bytes;
  json["compression"] = std::string(Name(summary.compression));
  return json.Dump(2);
}

StatusOr<Verified> VerifyRecords(const std::string& path, const DataProgress& progress) {
  RIVULET_ASSIGN_OR_RETURN(const auto reader, RecordReader::Open(path));
  std::string record;
  Verified verified;
  for (;;) {
    RIVULET_ASSIGN_OR_RETURN(const bool more, reader->Next(record));
    if (!more) break;
    ++verified.records;
    RIVULET_RETURN_IF_ERROR(Tell(*reader, progress));
  }
  verified.bytes = static_cast<int64_t>(reader->stream_bytes());
  return verified;
}

}  // namespace rivulet
