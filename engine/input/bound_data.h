// Data sets by name. A graph names what it reads; which files that is, is said by whoever runs it: in code for a
// session (BindData), by its own configuration for a client.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/data/dataset.h"
#include "engine/input/pipeline_registry.h"
#include "engine/resources/resource_manager.h"

namespace rivulet {

// Binds `name` to TFRecord files, for all sessions that share `resources` and until these are reset. Errors as
// Dataset::Open; ALREADY_EXISTS: the name is bound.
Status BindData(ResourceManager& resources, std::string_view name, const std::vector<std::string>& files);

// What BindData bound. `resources` must outlive it.
std::shared_ptr<const BoundSources> BoundIn(const ResourceManager& resources);

// The records of data sets, one after another: elements of one string. Records are read when they are looked into.
std::shared_ptr<Pipeline> RecordsOf(std::string where, std::vector<std::shared_ptr<const Dataset>> files);

// Elements 0 .. size - 1 of a source.
std::shared_ptr<Pipeline> ElementsOf(std::string where, std::vector<TensorSpec> specs,
                                     std::shared_ptr<const ElementSource> source, int64_t size);

}  // namespace rivulet
