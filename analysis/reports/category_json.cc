#include "analysis/reports/category_json.h"

#include <nlohmann/json.hpp>

namespace cuheap::analysis {
namespace {

using Json = nlohmann::ordered_json;

Json MomentJson(const CategoryMoment& moment) {
  Json json = Json::array();
  for (std::size_t i = 0; i < kCategories; ++i) {
    const CategorySum& sum = moment.categories[i];
    if (sum.blocks == 0) continue;
    const auto category = static_cast<Category>(i);
    Json rules = Json::array();
    for (std::size_t j = 0; j < kCategoryRules; ++j) {
      const auto rule = static_cast<CategoryRule>(j);
      if (CategoryOf(rule) != category || moment.rules[j].blocks == 0) continue;
      rules.push_back({{"rule", Word(rule)},
                       {"bytes", moment.rules[j].bytes},
                       {"blocks", moment.rules[j].blocks},
                       {"why", Explain(rule)}});
    }
    json.push_back({{"category", Word(category)}, {"bytes", sum.bytes}, {"blocks", sum.blocks}, {"rules", rules}});
  }
  return json;
}

}  // namespace

Json CategoriesJson(const ScopeCategories& categories) {
  Json json;
  json["at_peak"] = categories.peak_known ? MomentJson(categories.at_peak) : Json();
  json["at_end"] = MomentJson(categories.at_end);
  json["curve"] = Json::object();
  for (std::size_t i = 0; i < kCategories; ++i) {
    Json bytes = Json::array();
    bool any = false;
    for (const auto& point : categories.curve) {
      bytes.push_back(point[i]);
      any = any || point[i] != 0;
    }
    if (any) json["curve"][std::string(Word(static_cast<Category>(i)))] = std::move(bytes);
  }
  return json;
}

}  // namespace cuheap::analysis
