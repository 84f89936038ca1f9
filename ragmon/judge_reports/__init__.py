"""The judges' report card: how far each agrees with people, what it costs, and whom to trust.

``gathering`` takes the judged and labelled answers of a store, ``figures`` makes one judge's
figures of them, ``findings`` the whole report and ``advice`` its sentences. Pure.
"""
