"""A server on 127.0.0.1 that plays answers one after another, in the form that vLLM and SGLang give theirs."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = str | bytes | Callable[[BaseHTTPRequestHandler], None]


@dataclass
class Played:
    """What is played, and how often it was asked for; the last answer is given again."""

    answers: list[Answer]
    url: str = ""
    asked: list[str] = field(default_factory=list)


@contextlib.contextmanager
def served(*answers: Answer) -> Iterator[Played]:
    """A server for as long as the block lasts."""
    played = Played(list(answers))
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(played))
    played.url = f"http://127.0.0.1:{server.server_address[1]}/metrics"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield played
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=5)


def _handler(played: Played) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            played.asked.append(self.path)
            answer = played.answers.pop(0) if len(played.answers) > 1 else played.answers[0]
            if callable(answer):
                with contextlib.suppress(ConnectionError):
                    answer(self)
                return
            body = answer.encode() if isinstance(answer, str) else answer
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            """Say nothing."""

    return Handler


def status(code: int, **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    """An answer without a body."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(code)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return answer


def late(seconds: float) -> Callable[[BaseHTTPRequestHandler], None]:
    """An answer that comes after `seconds`."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        time.sleep(seconds)
        status(200)(handler)

    return answer


def dying(handler: BaseHTTPRequestHandler) -> None:
    """An answer that ends in the middle."""
    handler.send_response(200)
    handler.send_header("Content-Length", "5000")
    handler.end_headers()
    handler.wfile.write(b'vllm:prompt_tokens_total{engine="0"} 12')


def vllm(step: int = 0, *, usage: str = "kv_cache_usage_perc", drop: tuple[str, ...] = ()) -> str:
    """The metrics of vLLM after `step` intervals of 40 computed and 20 cached prompt tokens, 10 prompts and 110 tokens.

    Made up, in the form of vLLM 0.13's endpoint.
    """
    labels = 'engine="0",model_name="tiny"'
    lines = [
        "# HELP vllm:num_requests_running Number of requests in model execution batches.",
        "# TYPE vllm:num_requests_running gauge",
        f"vllm:num_requests_running{{{labels}}} 2.0",
        f"vllm:num_requests_waiting{{{labels}}} 3.0",
        f"vllm:{usage}{{{labels}}} 0.09",
        f"vllm:prompt_tokens_total{{{labels}}} {1000 + 60 * step}.0",
        f"vllm:prompt_tokens_created{{{labels}}} 1.76e+09",
        f'vllm:prompt_tokens_by_source_total{{{labels},source="local_compute"}} {700 + 40 * step}.0',
        f'vllm:prompt_tokens_by_source_total{{{labels},source="local_cache_hit"}} {300 + 15 * step}.0',
        f'vllm:prompt_tokens_by_source_total{{{labels},source="external_kv_transfer"}} {5 * step}.0',
        f"vllm:prefix_cache_hits_total{{{labels}}} {300 + 20 * step}.0",
        f"vllm:generation_tokens_total{{{labels}}} {5000 + 110 * step}.0",
        f'vllm:time_to_first_token_seconds_bucket{{le="0.1",{labels}}} {50 + 10 * step}.0',
        f'vllm:time_to_first_token_seconds_bucket{{le="+Inf",{labels}}} {50 + 10 * step}.0',
        f"vllm:time_to_first_token_seconds_count{{{labels}}} {50 + 10 * step}.0",
        f"vllm:time_to_first_token_seconds_sum{{{labels}}} {5 + 0.5 * step}",
        f"vllm:inter_token_latency_seconds_count{{{labels}}} {4000 + 100 * step}.0",
        f"vllm:inter_token_latency_seconds_sum{{{labels}}} {100 + 4 * step}.0",
        f"vllm:request_queue_time_seconds_count{{{labels}}} {50 + 10 * step}.0",
        f"vllm:request_queue_time_seconds_sum{{{labels}}} {1 + 0.2 * step}",
        f"vllm:iteration_tokens_total_count{{{labels}}} {3000 + 60 * step}.0",
        f"vllm:iteration_tokens_total_sum{{{labels}}} {6000 + 150 * step}.0",
        f"vllm:estimated_flops_per_gpu_total{{{labels}}} {60_000 * step}.0",
        f"vllm:estimated_read_bytes_per_gpu_total{{{labels}}} {30_000 * step}.0",
        f"vllm:estimated_write_bytes_per_gpu_total{{{labels}}} {1_000 * step}.0",
        'vllm:cache_config_info{block_size="10",cache_dtype="auto",engine="0",num_gpu_blocks="20"} 1.0',
        "python_info{version=\"3.12\"} 1.0",
    ]  # fmt: skip
    return "\n".join(line for line in lines if not any(name in line for name in drop)) + "\n"


def sglang(step: int = 0) -> str:
    """The metrics of SGLang with two tensor-parallel ranks, made up in the form of its endpoint."""
    lines = []
    for rank in ("0", "1"):
        labels = f'engine_type="unified",model_name="tiny",pp_rank="0",tp_rank="{rank}"'
        lines += [
            f"sglang:num_running_reqs{{{labels}}} 2.0",
            f"sglang:num_queue_reqs{{{labels}}} 3.0",
            f"sglang:token_usage{{{labels}}} 0.09",
            f"sglang:max_total_num_tokens{{{labels}}} 200.0",
            f"sglang:gen_throughput{{{labels}}} 55.0",
        ]
    labels = 'engine_type="unified",model_name="tiny"'
    return "\n".join(
        [
            *lines,
            f"sglang:prompt_tokens_total{{{labels}}} {1000 + 60 * step}.0",
            f'sglang:cached_tokens_total{{{labels},cache_source="device"}} {300 + 15 * step}.0',
            f'sglang:cached_tokens_total{{{labels},cache_source="host"}} {5 * step}.0',
            f"sglang:generation_tokens_total{{{labels}}} {5000 + 110 * step}.0",
            f"sglang:time_to_first_token_seconds_count{{{labels}}} {50 + 10 * step}.0",
            f"sglang:time_to_first_token_seconds_sum{{{labels}}} {5 + 0.5 * step}",
            f"sglang:inter_token_latency_seconds_count{{{labels}}} {4000 + 100 * step}.0",
            f"sglang:inter_token_latency_seconds_sum{{{labels}}} {100 + 4 * step}.0",
            "",
        ]
    )
