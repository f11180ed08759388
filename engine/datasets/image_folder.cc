#include "engine/datasets/image_folder.h"

#include <algorithm>
#include <filesystem>

#include "engine/data/example.h"
#include "engine/datasets/image_file.h"
#include "engine/datasets/new_dataset.h"
#include "engine/io/mapped_file.h"

namespace rivulet {
namespace {

constexpr uint64_t kMaxImageFileBytes = uint64_t{1} << 28;

bool IsFolder(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

bool IsImageName(std::string name) {
  for (char& c : name) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return !name.starts_with('.') && (name.ends_with(".png") || name.ends_with(".jpg") || name.ends_with(".jpeg"));
}

// Names in `folder` that are folders, sorted.
StatusOr<std::vector<std::string>> ClassFolders(FileSystem& fs, const std::string& folder) {
  RIVULET_ASSIGN_OR_RETURN(std::vector<std::string> names, fs.List(folder));
  std::erase_if(names,
                [&](const std::string& name) { return name.starts_with('.') || !IsFolder(JoinPath(folder, name)); });
  std::sort(names.begin(), names.end());
  if (names.empty()) return NotFound("{}: no folders in it, of which each would be a class of images", folder);
  for (const std::string& name : names)
    if (name.find('\n') != std::string::npos)
      return DataLoss("{}: a folder's name has a line break; rename it", folder);
  return names;
}

StatusOr<Image> ReadImage(const std::string& path, int channels) {
  const auto file = MappedFile::Open(path);
  if (!file.ok()) return Annotate(file.status(), path);
  if ((*file)->size() > kMaxImageFileBytes)
    return DataLoss("{}: an image file of {} bytes; at most {} can be read", path, (*file)->size(), kMaxImageFileBytes);
  std::string bytes((*file)->size(), '\0');
  if (!(*file)->Copy(0, std::as_writable_bytes(std::span(bytes))))
    return DataLoss("{}: the file shrank while it was being read", path);
  auto image = DecodeImage(bytes, channels);
  if (!image.ok()) return Annotate(image.status(), path);
  return image;
}

// Appends the images of one class; `at` says where image i goes.
template <typename WriterAt>
Status AppendClass(FileSystem& fs, const std::string& folder, int64_t label, int channels, const DataProgress& progress,
                   ImageFolderCounts& counts, const WriterAt& at) {
  RIVULET_ASSIGN_OR_RETURN(std::vector<std::string> names, fs.List(folder));
  std::erase_if(names, [](const std::string& name) { return !IsImageName(name); });
  std::sort(names.begin(), names.end());
  if (names.empty()) return NotFound("{}: no *.png, *.jpg or *.jpeg in this folder", folder);
  for (size_t i = 0; i < names.size(); ++i) {
    if (progress && i % 16 == 0) RIVULET_RETURN_IF_ERROR(progress(label, static_cast<int64_t>(counts.classes.size())));
    const std::string path = JoinPath(folder, names[i]);
    RIVULET_ASSIGN_OR_RETURN(const Image image, ReadImage(path, channels));
    if (counts.width == 0) {
      counts.width = image.width;
      counts.height = image.height;
    }
    if (image.width != counts.width || image.height != counts.height)
      return DataLoss("{}: {} × {} pixels, but earlier images have {} × {}; resize all to one size first", path,
                      image.width, image.height, counts.width, counts.height);
    RIVULET_RETURN_IF_ERROR(
        at(static_cast<int64_t>(i))
            .Append(ExampleBuilder().Bytes("image", image.pixels).Int64("label", label).Serialize()));
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<ImageFolderCounts> ImportImageFolder(FileSystem& fs, const ImageFolderOptions& options,
                                              const DataProgress& progress) {
  const std::string inner = JoinPath(options.from, "train"), held_out = JoinPath(options.from, "test");
  const std::string train = IsFolder(inner) ? inner : options.from;
  const bool has_test_folder = train == inner && IsFolder(held_out);
  if (has_test_folder && options.test_every > 0)
    return InvalidArgument("{} has images for the test already; take no others beside them", held_out);
  const int channels = options.grey ? 1 : 3;
  ImageFolderCounts counts;
  RIVULET_ASSIGN_OR_RETURN(counts.classes, ClassFolders(fs, train));
  RIVULET_ASSIGN_OR_RETURN(const auto files,
                           NewDataset::Create(fs, options.out, has_test_folder || options.test_every > 0));
  std::string names;
  for (size_t label = 0; label < counts.classes.size(); ++label) {
    RIVULET_RETURN_IF_ERROR(AppendClass(fs, JoinPath(train, counts.classes[label]), static_cast<int64_t>(label),
                                        channels, progress, counts,
                                        [&](int64_t i) -> RecordWriter& { return files->at(i, options.test_every); }));
    names += counts.classes[label] + "\n";
  }
  if (has_test_folder) {
    RIVULET_ASSIGN_OR_RETURN(const std::vector<std::string> tested, ClassFolders(fs, held_out));
    for (const std::string& name : tested) {
      const auto found = std::ranges::lower_bound(counts.classes, name);
      if (found == counts.classes.end() || *found != name)
        return InvalidArgument("{} is a class without images to learn from; make a folder for it in {}",
                               JoinPath(held_out, name), train);
      RIVULET_RETURN_IF_ERROR(AppendClass(fs, JoinPath(held_out, name), found - counts.classes.begin(), channels,
                                          progress, counts, [&](int64_t) -> RecordWriter& { return files->test(); }));
    }
  }
  counts.train = files->train().records();
  if (has_test_folder || options.test_every > 0) counts.test = files->test().records();
  RIVULET_RETURN_IF_ERROR(WriteFileAtomically(fs, JoinPath(options.out, "classes.txt"), names));
  RIVULET_RETURN_IF_ERROR(files->Publish());
  return counts;
}

}  // namespace rivulet
