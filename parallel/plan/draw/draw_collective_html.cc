#include <nlohmann/json.hpp>
#include <string_view>

#include "ringrad/core/draw/svg.h"
#include "ringrad/parallel/plan/collective/require.h"
#include "ringrad/parallel/plan/draw/collective_page.h"
#include "ringrad/parallel/plan/draw/draw_collective.h"

namespace ringrad {
namespace {

using Json = nlohmann::ordered_json;

// Replaces a mark that occurs once in the page by `text`.
void put(std::string& page, std::string_view mark, std::string_view text) {
  page.replace(page.find(mark), mark.size(), text);
}

Json json_of(const CollectiveFrames& film, int world_size) {
  Json frames = Json::array();
  std::vector<std::vector<int>> before;
  for (const CollectiveFrame& frame : film.frames) {
    Json cells = Json::array(), messages = Json::array();
    for (std::size_t cell = 0; cell < frame.ranks.size(); ++cell) {
      const std::vector<int>& held = frame.ranks[cell];
      if (!before.empty() && before[cell] == held) continue;
      const bool is_done = !held.empty() && held == film.promised[cell];
      cells.push_back({cell, ranks_label(held), held.size(), is_done ? 1 : 0});
    }
    for (const auto& [from, to, chunk, adds, staged] : frame.messages)
      messages.push_back({from, to, chunk, adds ? 1 : 0, staged ? 1 : 0});
    frames.push_back({{"slot", frame.slot}, {"messages", messages}, {"cells", cells}});
    before = frame.ranks;
  }
  const std::size_t num_chunks = film.promised.size() / static_cast<std::size_t>(world_size);
  Json wanted = Json::array();
  for (const auto& ranks : film.promised) wanted.push_back(ranks.empty() ? 0 : 1);
  Json page{{"ranks", world_size}, {"chunks", num_chunks}, {"wanted", wanted}, {"frames", frames}};
  if (film.fault) {
    const auto& [fault, rank, index, chunk, text] = *film.fault;
    const bool has_cell = rank >= 0 && chunk >= 0;
    page["fault"] = {{"cell", has_cell ? rank * static_cast<int>(num_chunks) + chunk : -1},
                     {"text", text_of(*film.fault)}};
  }
  return page;
}

}  // namespace

std::string collective_html(const CollectivePlan& plan) {
  Json page = json_of(frames_to_draw(plan), plan.world_size);
  page["title"] = collective_title(plan);
  page["costs"] = collective_costs(plan);
  std::string data = page.dump();
  // A "</script>" in a plan's name must not end the data.
  for (std::size_t at = 0; (at = data.find('<', at)) != std::string::npos;)
    data.replace(at, 1, "\\u003c");
  std::string text = kCollectivePage;
  put(text, "@SCRIPT@", kCollectivePageScript);
  // From the end: inserted text may itself look like a mark.
  put(text, "@PLAN@", data);
  put(text, "@TITLE@", xml_escaped(collective_title(plan)));
  return text;
}

}  // namespace ringrad
