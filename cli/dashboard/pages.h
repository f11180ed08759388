// The pages of `rivulet dashboard`, made by the server whole: HTML without scripts, every figure an SVG in the page.
// Texts of the history are data and come out escaped, whoever wrote them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/history/history.h"

namespace rivulet {

// The address of what they link to: "/", "/run?id=RUN", "/compare?run=A&run=B", "/style.css".
inline constexpr char kStylePath[] = "/style.css";

// Every run, newest first, `per_page` from place `first` on.
StatusOr<std::string> RunsPage(History& history, int64_t first);
// One run: curves, rounds, clients, what is configured, log. Of rounds and clients one leaf each.
StatusOr<std::string> RunPage(History& history, const std::string& run, int64_t first_round, int64_t first_client);
// What differed between runs, their curves on one axis.
StatusOr<std::string> ComparePage(History& history, const std::vector<std::string>& runs);
// A sentence instead of a page.
std::string ErrorPage(std::string_view title, std::string_view sentence);
// What all pages look like, light and dark.
std::string_view StyleSheet();

}  // namespace rivulet
