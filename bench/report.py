"""Prints the results as tables, with the ratios Gatehouse : other and their targets beside them."""
from scenarios import SINGLE, SINGLE_P50_TARGET, Target

SUBJECT = SINGLE.subject


def verdict(value, target, at_least=True):
    """A ratio with its target: 12.3x (at least 10x: met)."""
    shown = f"{value:.1f}x" if value >= 10 else f"{value:.2f}x"
    if target is None:
        return shown
    met = value >= target if at_least else value <= target
    return f"{shown} ({'at least' if at_least else 'at most'} {target:g}x: {'met' if met else 'MISSED'})"


def ratios(scenario, results):
    """[(rival, requests/s ratio, CPU ratio, p50 ratio, target)]; empty when the subject was not measured."""
    own = results.get(scenario.subject)
    if own is None:
        return []
    return [(name, own["requests_per_s"] / r["requests_per_s"],
             # 0: too short a run for the kernel's clock to see any
             own["cpu_s_per_million"] / r["cpu_s_per_million"] if r["cpu_s_per_million"] else float("inf"),
             own["p50_us"] / r["p50_us"],
             scenario.targets.get(name, Target()))
            for name, r in results.items() if name != scenario.subject]


def print_servers(results):
    print(f"  {'':<16} {'requests/s':>10} {'CPU s/M':>8} {'p50 us':>8} {'p99 us':>8} {'RSS MB':>7} {'client CPU s/M':>15}")
    for name, r in results.items():
        print(f"  {name:<16} {r['requests_per_s']:>10.0f} {r['cpu_s_per_million']:>8.1f} {r['p50_us']:>8.0f} "
              f"{r['p99_us']:>8.0f} {r['rss_mb']:>7.0f} {r['client_cpu_s_per_million']:>15.1f}")


def print_scenario(scenario, results):
    print(f"\n{scenario.title}")
    print_servers(results)
    for name in scenario.requests.keys() - results.keys():
        print(f"  {name}: not measured (not chosen, or no such path there yet)")
    for rival, rate, cpu, p50, target in ratios(scenario, results):
        shown = f", p50 {verdict(p50, target.p50, at_least=False)}" if target.p50 else ""
        print(f"  {scenario.subject} : {rival}: requests/s {verdict(rate, target.rate)}, "
              f"CPU a request {verdict(cpu, target.cpu, at_least=False)}{shown}")


def print_single(result):
    print(f"\nOne client, one durable write, against write + fdatasync of {result['bytes']} bytes")
    print_servers(result["servers"])
    asleep = ", ".join(f"{name} {r['p50_us']:.0f} us" for name, r in result["servers_client_asleep"].items())
    print(f"  the client polls; with one that sleeps and is woken the p50 is: {asleep}")
    for kind, floor in result["bare"].items():
        print(f"  bare fdatasync, {kind.replace('_', '-')} file: p50 {floor['p50_us']:.0f} us, p99 {floor['p99_us']:.0f} us")
    if SUBJECT in result["servers"]:
        p50 = result["servers"][SUBJECT]["p50_us"]
        print(f"  Gatehouse's p50 is {verdict(p50 / result['bare']['growing']['p50_us'], SINGLE_P50_TARGET, False)} "
              f"the growing file's, {p50 / result['bare']['zero_filled']['p50_us']:.1f}x the zero-filled one's")


def print_server_facts(facts):
    print("What is compared")
    for name, f in facts.items():
        print(f"  {name} ({f['version']}): {f['durability']}; ttl "
              f"{'kept by the server' if f['keeps_ttl'] else 'a plain attribute there'}; idle {f['idle_rss_mb']:.0f} MB")


def missed(scenario_results, single_result):
    """Titles of the targets that were not reached."""
    out = []
    for scenario, results in scenario_results:
        if scenario.subject not in results and scenario.targets:
            out.append(f"{scenario.title}: {scenario.subject} was not measured")
        for rival, rate, cpu, p50, target in ratios(scenario, results):
            if target.p50 and p50 > target.p50:
                out.append(f"{scenario.title}: p50 against {rival}")
            if target.rate and rate < target.rate:
                out.append(f"{scenario.title}: requests/s against {rival}")
            if target.cpu and cpu > target.cpu:
                out.append(f"{scenario.title}: CPU against {rival}")
    if single_result and SUBJECT in single_result["servers"]:
        p50 = single_result["servers"][SUBJECT]["p50_us"]
        if p50 > SINGLE_P50_TARGET * single_result["bare"]["growing"]["p50_us"]:
            out.append("one client's p50 against fdatasync")
    return out
