// Bindings of data set names to files. A graph names its data sets; the caller chooses the files. A session binds them
// in code (BindData), a client by its configuration.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dataflow/resources/resource_manager.h"
#include "engine/data/dataset.h"
#include "engine/input/pipeline_registry.h"

namespace rivulet {

inline constexpr std::string_view kBoundDataContainer = "bound data";  // container of the bindings' resources

// Binds `name` to TFRecord files for all sessions that share `resources`, until these are reset. Errors as
// Dataset::Open; ALREADY_EXISTS: the name is bound.
Status BindData(ResourceManager& resources, std::string_view name, const std::vector<std::string>& files);
Status BindData(ResourceManager& resources, std::string_view name, std::vector<std::shared_ptr<const Dataset>> files);

// The bindings made by BindData. `resources` must outlive the result.
std::shared_ptr<const BoundSources> BoundIn(const ResourceManager& resources);

}  // namespace rivulet
