#include "engine/datasets/leaf.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "engine/data/example.h"
#include "engine/datasets/characters.h"
#include "engine/datasets/new_dataset.h"
#include "engine/datasets/source_file.h"

namespace rivulet {
namespace {

constexpr size_t kMaxUserBytes = 128;  // as of a client's name
constexpr size_t kMaxSampleValues = 1 << 24;
constexpr int64_t kMaxLeafLabel = std::numeric_limits<int32_t>::max();
constexpr size_t kMaxNesting = 64;  // of parts that the importer ignores

// The bytes of a file as the JSON parser takes them.
class LeafBytes {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;
  LeafBytes() = default;  // the end
  explicit LeafBytes(SourceFile* source) : source_(source) {}
  char operator*() const { return static_cast<char>(source_->Peek()); }
  LeafBytes& operator++() {
    source_->Next();
    return *this;
  }
  LeafBytes operator++(int) { return ++*this; }
  bool AtEnd() const { return source_ == nullptr || source_->Peek() < 0; }
  bool operator==(const LeafBytes& other) const { return AtEnd() == other.AtEnd(); }

 private:
  SourceFile* source_ = nullptr;
};

// Code points of UTF-8 text, each as the number of its character.
std::vector<int64_t> TokensOf(std::string_view text) {
  std::vector<int64_t> tokens;
  for (const char byte : text)
    if ((static_cast<uint8_t>(byte) & 0xC0) != 0x80) tokens.push_back(TokenOf(byte));
  return tokens;
}

// State common to the files of one import.
struct LeafShape {
  enum class Kind { kUnknown, kNumbers, kText } kind = Kind::kUnknown;
  size_t size = 0;      // of one sample, in numbers or characters
  int64_t classes = 0;  // the largest label of numbers and one
};

// Takes a file's events and writes a user's examples when the user's data end. The parser calls it without recursion,
// so nesting costs no stack.
class LeafReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  LeafReader(SourceFile& source, bool pixels, const DataProgress& progress, LeafShape& shape, RecordWriter& writer)
      : source_(source), pixels_(pixels), progress_(progress), shape_(shape), writer_(writer) {}

  Status Read(int64_t* users) {
    const bool read = nlohmann::json::sax_parse(LeafBytes(&source_), LeafBytes(), this);
    RIVULET_RETURN_IF_ERROR(source_.status());
    RIVULET_RETURN_IF_ERROR(status_);
    if (!read) return DataLoss("{}: no JSON", source_.path());
    RIVULET_RETURN_IF_ERROR(CheckCounts());
    *users += users_with_samples_;
    return absl::OkStatus();
  }

  bool null() override { return Scalar("null"); }
  bool boolean(bool) override { return Scalar("a boolean"); }
  bool number_integer(int64_t value) override { return Number(static_cast<double>(value), value); }
  bool number_unsigned(uint64_t value) override {
    return Number(static_cast<double>(value), static_cast<int64_t>(std::min<uint64_t>(value, INT64_MAX)));
  }
  bool number_float(double value, const std::string&) override {
    // Labels of the synthetic sets are written as 3.0.
    const bool whole = std::floor(value) == value && std::abs(value) < 1e15;
    return Number(value, whole ? std::optional(static_cast<int64_t>(value)) : std::nullopt);
  }
  bool binary(nlohmann::json::binary_t&) override { return Scalar("binary data"); }

  bool string(std::string& value) override {
    if (skipping_ > 0 || places_.empty()) return Scalar("a text");
    switch (place()) {
      case Place::kUsers:
        if (!named_.emplace(value, named_.size()).second) return Fail("lists the user '{}' twice", Short(value));
        return true;
      case Place::kX:
        if (value.empty()) return FailAtSample(texts_.size(), "an empty text");
        texts_.push_back(std::move(value));
        return true;
      case Place::kY:
        next_.push_back(std::move(value));
        return true;
      case Place::kSample:
        return FailAtSample(SamplesRead(), "a list of texts; only lists of numbers, and single texts, can be imported");
      default:
        return Scalar("a text");
    }
  }

  bool start_object(std::size_t) override {
    if (skipping_ > 0) return Skip();
    if (places_.empty()) return Enter(Place::kRoot);
    if (place() == Place::kUserData) return BeginUser();
    if (place() == Place::kRootKey && key_ == "user_data") return has_data_ ? Twice() : Enter(Place::kUserData);
    return Other("an object");
  }
  bool key(std::string& name) override {
    if (skipping_ > 0) return true;
    if (place() == Place::kRootKey || place() == Place::kUserKey) places_.pop_back();
    key_ = name;
    if (place() == Place::kRoot) return Enter(Place::kRootKey);
    if (place() == Place::kUser) return Enter(Place::kUserKey);
    return true;
  }
  bool end_object() override {
    if (skipping_ > 0) return --skipping_, true;
    if (place() == Place::kRootKey || place() == Place::kUserKey) places_.pop_back();
    const Place ended = place();
    places_.pop_back();
    if (ended == Place::kUserData) has_data_ = true;
    return ended == Place::kUser ? EndUser() : true;
  }
  bool start_array(std::size_t) override {
    if (skipping_ > 0) return Skip();
    if (places_.empty()) return Fail("is a JSON array; LEAF's files are objects with 'users' and 'user_data'");
    if (place() == Place::kRootKey && key_ == "users") return Enter(Place::kUsers);
    if (place() == Place::kRootKey && key_ == "num_samples") return Enter(Place::kCounts);
    if (place() == Place::kUserKey && key_ == "x") return has_x_ ? Twice() : (has_x_ = true, Enter(Place::kX));
    if (place() == Place::kUserKey && key_ == "y") return has_y_ ? Twice() : (has_y_ = true, Enter(Place::kY));
    if (place() == Place::kX || place() == Place::kSample) {
      if (places_.size() > kMaxNesting) return Fail("nests samples more than {} deep", kMaxNesting);
      return Enter(Place::kSample);
    }
    return Other("a list");
  }
  bool end_array() override {
    if (skipping_ > 0) return --skipping_, true;
    places_.pop_back();
    // A nested sample is flattened: it ends with its outermost list.
    if (!places_.empty() && place() == Place::kX) return EndSample();
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception& error) override {
    std::string_view what = error.what();  // "[json.exception.parse_error.101] parse error at line …: REASON"
    if (const size_t begin = what.find("] "); begin != std::string_view::npos) what.remove_prefix(begin + 2);
    if (const size_t begin = what.find(": "); what.starts_with("parse error") && begin != std::string_view::npos)
      what.remove_prefix(begin + 2);
    if (source_.status().ok())
      status_ = DataLoss("{}: byte {}: no JSON: {}", source_.path(), source_.offset(), what.substr(0, 200));
    return false;
  }

 private:
  enum class Place { kRoot, kRootKey, kUsers, kCounts, kUserData, kUser, kUserKey, kX, kSample, kY };
  Place place() const { return places_.back(); }
  bool Enter(Place place) {
    places_.push_back(place);
    return true;
  }
  bool Skip() {
    if (++skipping_ > kMaxNesting) return Fail("nests more than {} deep", kMaxNesting);
    return true;
  }
  static std::string Short(std::string_view text) {
    return text.size() <= 60 ? std::string(text) : fmt::format("{}…", text.substr(0, 60));
  }

  template <typename... Args>
  bool Fail(fmt::format_string<Args...> format, Args&&... args) {
    status_ = DataLoss("{}: byte {}: it {}", source_.path(), source_.offset(),
                       fmt::format(format, std::forward<Args>(args)...));
    return false;
  }
  template <typename... Args>
  bool FailAtSample(size_t sample, fmt::format_string<Args...> format, Args&&... args) {
    status_ = DataLoss("{}: sample {} of the user '{}' is {}", source_.path(), sample, Short(user_),
                       fmt::format(format, std::forward<Args>(args)...));
    return false;
  }
  bool Twice() { return Fail("has '{}' twice", key_); }

  // A value that stands where the layout has none: read over under a name that is not LEAF's, refused elsewhere.
  bool Other(std::string_view what) {
    if (place() == Place::kRootKey && key_ != "users" && key_ != "num_samples" && key_ != "user_data") return Skip();
    if (place() == Place::kUserKey && key_ != "x" && key_ != "y") return Skip();
    return Misplaced(what);
  }
  bool Scalar(std::string_view what) {
    if (skipping_ > 0) return true;
    if (places_.empty()) return Fail("is {}; LEAF's files are objects with 'users' and 'user_data'", what);
    const bool named = place() == Place::kRootKey || place() == Place::kUserKey;
    if (!named || key_ == "users" || key_ == "num_samples" || key_ == "user_data" || key_ == "x" || key_ == "y")
      return Misplaced(what);
    return true;
  }
  bool Misplaced(std::string_view what) {
    switch (place()) {
      case Place::kUsers:
        return Fail("has {} among 'users', which are texts", what);
      case Place::kCounts:
        return Fail("has {} among 'num_samples', which are whole numbers", what);
      case Place::kUserData:
        return Fail("has {} as the data of the user '{}', which are an object with 'x' and 'y'", what, Short(key_));
      case Place::kX:
      case Place::kSample:
        return FailAtSample(SamplesRead(), "{}, or holds it; a sample is a list of numbers, or a text", what);
      case Place::kY:
        return Fail("has {} among the labels of the user '{}'", what, Short(user_));
      default:
        return Fail("has {} as '{}'", what, Short(key_));
    }
  }

  bool Number(double value, std::optional<int64_t> whole) {
    if (skipping_ > 0 || places_.empty()) return Scalar("a number");
    switch (place()) {
      case Place::kCounts:
        if (!whole || *whole < 0) return Fail("has {} among 'num_samples'", value);
        counts_.push_back(*whole);
        return true;
      case Place::kX:  // samples of one number each
        return AddValue(value) && EndSample();
      case Place::kSample:
        return AddValue(value);
      case Place::kY:
        if (!whole || *whole < 0 || *whole > kMaxLeafLabel)
          return Fail("has the label {} for the user '{}'; a label is a class, a whole number from 0", value,
                      Short(user_));
        labels_.push_back(*whole);
        shape_.classes = std::max(shape_.classes, *whole + 1);
        return true;
      default:
        return Scalar("a number");
    }
  }

  size_t SamplesRead() const { return texts_.size() + sample_ends_.size(); }

  bool AddValue(double value) {
    if (!(std::abs(value) <= std::numeric_limits<float>::max()))
      return FailAtSample(SamplesRead(), "beyond the range of a float: it has {}", value);
    if (pixels_ && !(value >= 0 && value <= 1))
      return FailAtSample(SamplesRead(), "no image: it has {}, and pixels are from 0 to 1; import without --pixels",
                          value);
    const size_t begin = sample_ends_.empty() ? 0 : sample_ends_.back();
    if (values_.size() - begin >= kMaxSampleValues)
      return FailAtSample(SamplesRead(), "of more than {} numbers", kMaxSampleValues);
    values_.push_back(static_cast<float>(value));
    return true;
  }

  bool EndSample() {
    const size_t begin = sample_ends_.empty() ? 0 : sample_ends_.back();
    if (values_.size() == begin) return FailAtSample(SamplesRead(), "an empty list");
    if (!Fits(LeafShape::Kind::kNumbers, values_.size() - begin, SamplesRead())) return false;
    sample_ends_.push_back(values_.size());
    return true;
  }

  // All samples of an import have the same kind, determined by the first.
  bool Fits(LeafShape::Kind kind, size_t size, size_t sample) {
    if (shape_.kind == LeafShape::Kind::kUnknown) {
      shape_.kind = kind;
      shape_.size = size;
    }
    const auto told = [](LeafShape::Kind of, size_t n) {
      return of == LeafShape::Kind::kText ? fmt::format("a text of {} characters", n) : fmt::format("{} numbers", n);
    };
    if (shape_.kind == kind && shape_.size == size) return true;
    return FailAtSample(sample, "{}, but samples before it are {}", told(kind, size), told(shape_.kind, shape_.size));
  }

  bool BeginUser() {
    user_ = key_;
    if (user_.empty() || user_.size() > kMaxUserBytes)
      return Fail("has a user whose name has {} bytes, which must be 1 to {}", user_.size(), kMaxUserBytes);
    if (read_.contains(user_)) return Fail("has the data of the user '{}' twice", Short(user_));
    texts_.clear();
    next_.clear();
    values_.clear();
    sample_ends_.clear();
    labels_.clear();
    has_x_ = has_y_ = false;
    return Enter(Place::kUser);
  }

  bool EndUser() {
    const size_t samples = SamplesRead(), labels = labels_.size() + next_.size();
    if (!has_x_ || !has_y_) return Fail("has no '{}' for the user '{}'", has_x_ ? "y" : "x", Short(user_));
    if (samples != labels) return Fail("has {} samples and {} labels for the user '{}'", samples, labels, Short(user_));
    if (!texts_.empty() && !sample_ends_.empty()) return Fail("has texts and numbers for the user '{}'", Short(user_));
    if (texts_.size() != next_.size()) {
      return texts_.empty() ? Fail("has texts as labels of the user '{}', whose samples are numbers", Short(user_))
                            : Fail("has numbers as labels of the user '{}', whose samples are texts", Short(user_));
    }
    read_.emplace(user_, static_cast<int64_t>(samples));
    users_with_samples_ += samples > 0;
    status_ = texts_.empty() ? WriteNumbers() : WriteTexts();
    key_.clear();
    return status_.ok();
  }

  Status Tell() {
    if (progress_ && written_++ % 64 == 0) return progress_(source_.position(), source_.file_bytes());
    return absl::OkStatus();
  }

  Status WriteNumbers() {
    std::string pixels;
    for (size_t i = 0; i < sample_ends_.size(); ++i) {
      RIVULET_RETURN_IF_ERROR(Tell());
      const size_t begin = i == 0 ? 0 : sample_ends_[i - 1];
      const auto sample = std::span<const float>(values_).subspan(begin, sample_ends_[i] - begin);
      ExampleBuilder example;
      if (pixels_) {
        pixels.clear();
        for (const float value : sample) pixels.push_back(static_cast<char>(std::lround(value * 255)));
        example.Bytes("image", pixels);
      } else {
        example.Floats("features", sample);
      }
      RIVULET_RETURN_IF_ERROR(writer_.Append(example.Int64("label", labels_[i]).Bytes("user", user_).Serialize()));
    }
    return absl::OkStatus();
  }

  Status WriteTexts() {
    if (pixels_) {
      FailAtSample(0, "a text and no image; import without --pixels");
      return status_;
    }
    for (size_t i = 0; i < texts_.size(); ++i) {
      RIVULET_RETURN_IF_ERROR(Tell());
      const std::vector<int64_t> tokens = TokensOf(texts_[i]), next = TokensOf(next_[i]);
      if (!Fits(LeafShape::Kind::kText, tokens.size(), i)) return status_;
      if (next.size() != 1) {
        FailAtSample(i, "a text whose label has {} characters; it is the one that follows", next.size());
        return status_;
      }
      std::vector<int64_t> labels(tokens.begin() + 1, tokens.end());
      labels.push_back(next[0]);
      RIVULET_RETURN_IF_ERROR(writer_.Append(
          ExampleBuilder().Int64s("tokens", tokens).Int64s("label", labels).Bytes("user", user_).Serialize()));
    }
    return absl::OkStatus();
  }

  // `users` and `num_samples` say again what `user_data` has; a file in which they differ was cut or put together
  // wrongly.
  Status CheckCounts() const {
    const auto wrong = [&](std::string what) { return DataLoss("{}: {}", source_.path(), what); };
    if (!has_data_) return wrong("it has no 'user_data', which LEAF's files have");
    for (const auto& [user, samples] : read_)
      if (!named_.contains(user))
        return wrong(
            fmt::format("'user_data' has the user '{}', but 'users' does not; add the name or remove the user's data",
                        Short(user)));
    if (counts_.size() != named_.size() && !counts_.empty())
      return wrong(fmt::format("it has {} 'users' and {} 'num_samples'", named_.size(), counts_.size()));
    for (const auto& [user, place] : named_) {
      const auto read = read_.find(user);
      if (read == read_.end()) return wrong(fmt::format("'user_data' has no user '{}'", Short(user)));
      if (!counts_.empty() && counts_[place] != read->second)
        return wrong(fmt::format("the user '{}' has {} samples, but 'num_samples' gives {}", Short(user), read->second,
                                 counts_[place]));
    }
    return absl::OkStatus();
  }

  SourceFile& source_;
  const bool pixels_;
  const DataProgress& progress_;
  LeafShape& shape_;
  RecordWriter& writer_;

  std::vector<Place> places_;  // from the outermost; a *Key is the place of the value behind key_
  size_t skipping_ = 0;        // objects and lists that are open and not read
  std::string key_;
  Status status_;
  bool has_data_ = false;
  std::map<std::string, size_t, std::less<>> named_;  // users, by their place in the list
  std::vector<int64_t> counts_;
  std::map<std::string, int64_t, std::less<>> read_;  // samples of each user
  int64_t users_with_samples_ = 0, written_ = 0;

  // Of the user whose data are being read.
  std::string user_;
  bool has_x_ = false, has_y_ = false;
  std::vector<std::string> texts_, next_;
  std::vector<float> values_;
  std::vector<size_t> sample_ends_;
  std::vector<int64_t> labels_;
};

// The JSON files of a folder, in order of their names.
StatusOr<std::vector<std::string>> JsonFiles(FileSystem& fs, const std::string& folder) {
  RIVULET_ASSIGN_OR_RETURN(std::vector<std::string> names, fs.List(folder));
  std::erase_if(names, [](const std::string& name) { return !name.ends_with(".json") && !name.ends_with(".json.gz"); });
  if (names.empty()) {
    // Some sets are distributed without training data.
    const std::string held_out = JoinPath(folder, "test");
    if (fs.Exists(held_out)) {
      return NotFound("{}: it has test/ and no train/; give {} to make its data a train.tfrecord", folder, held_out);
    }
    return NotFound("{}: no *.json in this folder; give LEAF's data folder, which has train/ and test/, or a file",
                    folder);
  }
  for (std::string& name : names) name = JoinPath(folder, name);
  return names;
}

}  // namespace

StatusOr<LeafCounts> ImportLeaf(FileSystem& fs, const LeafOptions& options, const DataProgress& progress) {
  std::vector<std::string> train, test;
  if (options.from.ends_with(".json") || options.from.ends_with(".gz")) {
    train = {options.from};
  } else {
    const std::string folder = JoinPath(options.from, "train"), held_out = JoinPath(options.from, "test");
    const bool divided = fs.Exists(folder);
    RIVULET_ASSIGN_OR_RETURN(train, JsonFiles(fs, divided ? folder : options.from));
    if (divided && fs.Exists(held_out)) {
      RIVULET_ASSIGN_OR_RETURN(test, JsonFiles(fs, held_out));
    }
  }
  LeafCounts counts{.has_test = !test.empty()};
  RIVULET_ASSIGN_OR_RETURN(const auto files, NewDataset::Create(fs, options.out, counts.has_test));
  LeafShape shape;
  const auto read = [&](const std::vector<std::string>& paths, RecordWriter& writer, int64_t* users) -> Status {
    for (const std::string& path : paths) {
      RIVULET_ASSIGN_OR_RETURN(const auto source, SourceFile::Open(path));
      RIVULET_RETURN_IF_ERROR(LeafReader(*source, options.pixels, progress, shape, writer).Read(users));
    }
    if (writer.records() == 0) return DataLoss("{}: no samples", paths.front());
    return absl::OkStatus();
  };
  RIVULET_RETURN_IF_ERROR(read(train, files->train(), &counts.train_users));
  counts.train = files->train().records();
  if (counts.has_test) {
    RIVULET_RETURN_IF_ERROR(read(test, files->test(), &counts.test_users));
    counts.test = files->test().records();
  }
  counts.values = static_cast<int64_t>(shape.size);
  counts.classes = shape.classes;
  counts.feature = shape.kind == LeafShape::Kind::kText ? "tokens" : options.pixels ? "image" : "features";
  RIVULET_RETURN_IF_ERROR(files->Publish());
  return counts;
}

}  // namespace rivulet
