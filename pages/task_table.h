// Columns of tasks on the pages of a round and of a client.
#pragma once

#include <string>
#include <vector>

#include "coordinator/history/history.h"
#include "inspect/overview.h"

namespace rivulet {

// Whether norms of a run's updates are multiples of its clip, which adaptive clipping moves from round to round.
StatusOr<bool> NormsAreInClips(History& history, const std::string& run_id);

// Titles as in HtmlTable, after `before`; cells that are HTML.
std::vector<std::string> TaskTitles(std::vector<std::string> before, bool norms_in_clips);
void AddTaskCells(std::vector<std::string>& row, const ClientRoundRow& task);

// "train/loss" over the rounds of one client's tasks, which are given newest first.
Curve LossCurve(const std::vector<ClientRoundRow>& tasks);

}  // namespace rivulet
