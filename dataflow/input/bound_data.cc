#include "dataflow/input/bound_data.h"

#include "engine/input/source_pipeline.h"

namespace rivulet {
namespace {

class BoundFiles : public Resource {
 public:
  explicit BoundFiles(std::vector<std::shared_ptr<const Dataset>> files) : files(std::move(files)) {}
  std::string_view type() const override { return "BoundDataset"; }
  const std::vector<std::shared_ptr<const Dataset>> files;
};

class SessionSources : public BoundSources {
 public:
  explicit SessionSources(const ResourceManager& resources) : resources_(resources) {}
  StatusOr<std::shared_ptr<Pipeline>> Open(std::string_view name, int64_t file, std::string where) const override {
    RIVULET_ASSIGN_OR_RETURN(const auto bound, Find(name, where));
    if (file < 0) return RecordsOf(std::move(where), bound->files);
    if (file >= static_cast<int64_t>(bound->files.size()))
      return OutOfRange("{}: file {} of the data set '{}', which has {}", where, file, name, bound->files.size());
    return RecordsOf(std::move(where), {bound->files[static_cast<size_t>(file)]});
  }
  StatusOr<int64_t> Files(std::string_view name) const override {
    RIVULET_ASSIGN_OR_RETURN(const auto bound, Find(name, "the number of files"));
    return static_cast<int64_t>(bound->files.size());
  }

 private:
  StatusOr<std::shared_ptr<BoundFiles>> Find(std::string_view name, std::string_view where) const {
    const auto found = resources_.Find(kBoundDataContainer, "BoundDataset", name);
    if (!found.ok())
      return NotFound("{}: no data set is bound to '{}'; bind its files with BindData ({})", where, name,
                      Message(found.status()));
    return std::static_pointer_cast<BoundFiles>(*found);
  }
  const ResourceManager& resources_;
};

}  // namespace

Status BindData(ResourceManager& resources, std::string_view name, const std::vector<std::string>& files) {
  std::vector<std::shared_ptr<const Dataset>> opened;
  for (const std::string& file : files) {
    RIVULET_ASSIGN_OR_RETURN(opened.emplace_back(), Dataset::Open({file}));
  }
  return BindData(resources, name, std::move(opened));
}

Status BindData(ResourceManager& resources, std::string_view name, std::vector<std::shared_ptr<const Dataset>> files) {
  if (files.empty()) return InvalidArgument("the data set '{}' is bound to no file", name);
  bool made = false;
  RIVULET_RETURN_IF_ERROR(resources
                              .FindOrMake(kBoundDataContainer, "BoundDataset", name,
                                          [&]() -> StatusOr<std::shared_ptr<Resource>> {
                                            made = true;
                                            return std::make_shared<BoundFiles>(std::move(files));
                                          })
                              .status());
  return made ? absl::OkStatus() : Status(AlreadyExists("a data set is bound to '{}' already", name));
}

std::shared_ptr<const BoundSources> BoundIn(const ResourceManager& resources) {
  return std::make_shared<SessionSources>(resources);
}

}  // namespace rivulet
