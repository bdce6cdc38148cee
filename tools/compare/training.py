def table():
    return {}
