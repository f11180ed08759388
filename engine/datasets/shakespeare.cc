#include "engine/datasets/shakespeare.h"

#include <map>

#include "engine/data/example.h"
#include "engine/data/tfrecord.h"
#include "engine/datasets/characters.h"
#include "engine/io/new_folder.h"

namespace rivulet {
namespace {

constexpr size_t kMaxSpeakerBytes = 128;  // as of a client's name
constexpr size_t kTestShare = 10;         // every tenth speech

// The next line of `text` without its end, which may be that of DOS.
std::string_view TakeLine(std::string_view& text) {
  const size_t end = text.find('\n');
  std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

Status Write(const std::string& speaker, const std::vector<std::string_view>& speeches, RecordWriter& writer) {
  for (const TextWindow& window : WindowsOf(speeches)) {
    RIVULET_RETURN_IF_ERROR(writer.Append(ExampleBuilder()
                                              .Int64s("tokens", window.tokens)
                                              .Int64s("label", window.next)
                                              .Bytes("speaker", speaker)
                                              .Serialize()));
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<std::vector<Speech>> ParseSpeeches(std::string_view text) {
  std::vector<Speech> speeches;
  bool begins = true;  // the line follows a blank one
  for (int64_t number = 1; !text.empty(); ++number) {
    const std::string_view line = TakeLine(text);
    if (line.empty()) {
      begins = true;
      continue;
    }
    if (begins && line.ends_with(':')) {
      const std::string_view speaker = line.substr(0, line.size() - 1);
      if (speaker.empty()) return DataLoss("line {}: ':' without the name of a speaker", number);
      if (speaker.size() > kMaxSpeakerBytes)
        return DataLoss("line {}: a speaker's name of {} bytes, more than {}", number, speaker.size(),
                        kMaxSpeakerBytes);
      speeches.push_back({std::string(speaker), ""});
    } else if (speeches.empty()) {
      return DataLoss("line {}: text before the first speaker; a speech begins with a line such as 'First Citizen:'",
                      number);
    } else {
      std::string& speech = speeches.back().text;
      if (!speech.empty()) speech += '\n';
      speech += line;
    }
    begins = false;
  }
  return speeches;
}

std::vector<TextWindow> WindowsOf(const std::vector<std::string_view>& speeches) {
  std::vector<int64_t> stream;
  for (const std::string_view speech : speeches) {
    stream.push_back(kBeginPassage);
    for (const char character : speech) stream.push_back(TokenOf(character));
    stream.push_back(kEndPassage);
  }
  constexpr auto kLength = static_cast<size_t>(kWindowLength);
  std::vector<TextWindow> windows;
  for (size_t begin = 0; begin + 1 < stream.size(); begin += kLength) {
    TextWindow& window = windows.emplace_back();
    for (size_t i = begin; i < begin + kLength; ++i) {
      const bool inside = i + 1 < stream.size();
      window.tokens.push_back(inside ? stream[i] : kPadding);
      window.next.push_back(inside ? stream[i + 1] : kPadding);
    }
  }
  return windows;
}

StatusOr<ShakespeareCounts> ImportShakespeare(FileSystem& fs, const std::string& from, const std::string& out,
                                              const DataProgress& progress) {
  RIVULET_ASSIGN_OR_RETURN(const std::string text, fs.ReadAll(from));
  const auto speeches = ParseSpeeches(text);
  if (!speeches.ok()) return Annotate(speeches.status(), from);
  if (speeches->empty()) return DataLoss("{}: no speeches in this text", from);
  std::vector<std::pair<std::string, std::vector<std::string_view>>> speakers;  // in order of appearance
  std::map<std::string, size_t> places;
  for (const Speech& speech : *speeches) {
    const auto [place, added] = places.try_emplace(speech.speaker, speakers.size());
    if (added) speakers.push_back({speech.speaker, {}});
    speakers[place->second].second.push_back(speech.text);
  }
  RIVULET_ASSIGN_OR_RETURN(const auto folder, NewFolder::Create(fs, out));  // outlives the writers in it
  RIVULET_ASSIGN_OR_RETURN(const auto train, RecordWriter::Create(fs, JoinPath(out, "train.tfrecord")));
  RIVULET_ASSIGN_OR_RETURN(const auto test, RecordWriter::Create(fs, JoinPath(out, "test.tfrecord")));
  int64_t written = 0;
  for (const auto& [speaker, all] : speakers) {
    if (progress) RIVULET_RETURN_IF_ERROR(progress(written++, static_cast<int64_t>(speakers.size())));
    std::vector<std::string_view> learnt, judged;
    for (size_t i = 0; i < all.size(); ++i) (i % kTestShare == kTestShare - 1 ? judged : learnt).push_back(all[i]);
    RIVULET_RETURN_IF_ERROR(Write(speaker, learnt, *train));
    RIVULET_RETURN_IF_ERROR(Write(speaker, judged, *test));
  }
  RIVULET_RETURN_IF_ERROR(train->Finish());
  RIVULET_RETURN_IF_ERROR(test->Finish());
  RIVULET_RETURN_IF_ERROR(test->Publish());
  RIVULET_RETURN_IF_ERROR(train->Publish());
  folder->Keep();
  return ShakespeareCounts{train->records(), test->records(), static_cast<int64_t>(speakers.size())};
}

}  // namespace rivulet
