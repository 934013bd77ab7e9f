"""What every page is sent with, and who may change something through a form."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from starlette.datastructures import Headers

PAGE_HEADERS: Mapping[str, str] = {
    # Nothing from elsewhere, no inline script. Plotly writes style elements and attributes, hence 'unsafe-inline'.
    "Content-Security-Policy": (
        "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; object-src 'none'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


def is_same_origin(headers: Headers) -> bool:
    """True if a page of ours sent this form, by what the browser itself says of its origin.

    `Sec-Fetch-Site` where the browser has it (Fetch Metadata, W3C), else `Origin` (RFC 6454), whose host and port are
    held against `Host`: behind a proxy that ends TLS the scheme differs. A request with neither is not a browser's.
    """
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = headers.get("origin")
    return origin is not None and urlsplit(origin).netloc == headers.get("host")
